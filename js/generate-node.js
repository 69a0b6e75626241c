// SPDX-License-Identifier: Apache-2.0
// wisp-engine/generate as Node imports it.
import { Worker } from 'node:worker_threads';
import { findAddon } from './addon-node.js';
import { BaseGenerator } from './generator.js';
import { watchHelpers } from './helpers-node.js';
import { localLink } from './link-local.js';
import { load } from './load.js';
import { releaseModels } from './models.js';
import { startNativeText } from './native-text-engine.js';
import { platform } from './platform-node.js';
import { serveText } from './text-worker.js';
import { countThreads } from './threads-count.js';

export { WispError } from './errors.js';

/** @type {import('../types/internal.js').Own} */
const own = {
  module(build, threads) {
    if (build === 'relaxed') {
      return threads
        ? new URL('./wisp-threads-relaxed.wasm', import.meta.url)
        : new URL('./wisp-generate-relaxed.wasm', import.meta.url);
    }
    return threads
      ? new URL('./wisp-threads-simd128.wasm', import.meta.url)
      : new URL('./wisp-generate-simd128.wasm', import.meta.url);
  },
  model: () => new URL('../models/wisp-stories.gguf', import.meta.url),
  // Bundlers recognise exactly this expression.
  worker: () =>
    new Worker(new URL('./generate-worker-node.js', import.meta.url), {
      name: 'wisp',
      execArgv: [],
    }),
  names: {
    module: 'wisp-generate',
    threads: 'wisp-threads',
    model: 'wisp-stories',
    worker: 'generate-worker-node',
  },
  local: localLink((post) => serveText(post)),
  native: (options) => findAddon(options, startNativeText),
  mostWorkers: 1,
  threads: countThreads,
};

/** A model that continues texts. */
export class Generator extends BaseGenerator {
  /**
   * Loads a model and starts the worker.
   * @param {import('./source.js').ModelSource} [source] the model that comes with the package
   *   unless given
   * @param {import('../types/generate.js').GeneratorLoadOptions} [options]
   * @returns {Promise<Generator>}
   */
  static async load(source, options) {
    return new Generator(await load(watchHelpers(platform), own, source, options));
  }

  /**
   * Lets go of the model that stays for the next load when nothing uses it.
   */
  static releaseModels() {
    releaseModels();
  }
}
