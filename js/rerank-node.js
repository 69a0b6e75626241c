// SPDX-License-Identifier: Apache-2.0
// wisp-engine/rerank as Node imports it.
import { Worker } from 'node:worker_threads';
import { BaseReranker, loadReranker } from './calls/reranker.js';
import { serveRank } from './engine/rank-engine.js';
import { releaseModels } from './files/models.js';
import { findAddon } from './native/addon-node.js';
import { startNativeRank } from './native/native-rank-engine.js';
import { localLink } from './platform/link-local.js';
import { platform } from './platform/platform-node.js';

export { WispError } from './base/errors.js';

/** @type {import('../types/internal.js').Own} */
const own = {
  module: (build) =>
    build === 'relaxed'
      ? new URL('./wisp-encoders-relaxed.wasm', import.meta.url)
      : new URL('./wisp-encoders-simd128.wasm', import.meta.url),
  model() {
    throw new Error('the package has no model that scores texts');
  },
  // Bundlers recognise exactly this expression.
  worker: () =>
    new Worker(new URL('./rerank-worker-node.js', import.meta.url), {
      name: 'wisp',
      execArgv: [],
    }),
  names: { module: 'wisp-encoders', model: '', worker: 'rerank-worker-node' },
  local: localLink(serveRank),
  native: (options) => findAddon(options, startNativeRank),
  mostWorkers: 4,
};

/** A model that scores texts for a query. */
export class Reranker extends BaseReranker {
  /**
   * Loads a model and starts the workers.
   * @param {import('./files/source.js').ModelSource} source
   * @param {import('../types/rerank.js').RerankerLoadOptions} [options]
   * @returns {Promise<Reranker>}
   */
  static async load(source, options) {
    return new Reranker(await loadReranker(platform, own, source, options));
  }

  /**
   * Lets go of the model that stays for the next load when nothing uses it.
   */
  static releaseModels() {
    releaseModels();
  }
}
