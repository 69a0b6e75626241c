// SPDX-License-Identifier: Apache-2.0
// The package as a browser imports it.
import { BaseEmbedder } from './calls/embedder.js';
import { load } from './calls/load.js';
import { serve } from './engine/worker.js';
import { localLink } from './platform/link-local.js';
import { platform } from './platform/platform-browser.js';
import { withThreads } from './threads-browser.js';

export { WispError } from './base/errors.js';
export { Rows } from './calls/rows.js';

/** @type {import('../types/internal.js').Own} */
const own = {
  module: (build) =>
    build === 'relaxed'
      ? new URL('./wisp-relaxed.wasm', import.meta.url)
      : new URL('./wisp-simd128.wasm', import.meta.url),
  model: () => new URL('../models/wisp-default.gguf', import.meta.url),
  // Bundlers recognise exactly this expression.
  worker: () =>
    new Worker(new URL('./worker-browser.js', import.meta.url), { type: 'module', name: 'wisp' }),
  names: {
    module: 'wisp',
    model: 'wisp-default',
    worker: 'worker-browser',
  },
  local: localLink(serve),
  withThreads,
  isTeam: true,
  mostWorkers: 4,
};

/** A model that embeds texts. */
export class Embedder extends BaseEmbedder {
  /**
   * Loads a model and starts the workers.
   * @param {import('./files/source.js').ModelSource} [source] the model that comes with the package
   *   unless given
   * @param {import('./calls/load.js').LoadOptions} [options]
   * @returns {Promise<Embedder>}
   */
  static async load(source, options) {
    return new Embedder(await load(platform, own, source, options));
  }

  /** A page keeps no model for the next load; Node does. */
  static releaseModels() {}
}
