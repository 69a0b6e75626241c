// SPDX-License-Identifier: Apache-2.0
// wisp-engine/generate as Node imports it.
import { Worker } from 'node:worker_threads';
import { BaseGenerator } from './calls/generator.js';
import { languagesOf } from './calls/languages.js';
import { load } from './calls/load.js';
import { countThreads } from './calls/threads-count.js';
import { serveText } from './engine/text-worker.js';
import { releaseModels } from './files/models.js';
import { findAddon } from './native/addon-node.js';
import { startNativeText } from './native/native-text-engine.js';
import { watchHelpers } from './platform/helpers-node.js';
import { localLink } from './platform/link-local.js';
import { platform } from './platform/platform-node.js';

export { WispError } from './base/errors.js';

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

/** The module that reads chat templates, grammars and schemas. */
const languages = () => new URL('./wisp-languages.wasm', import.meta.url);

/** A model that continues texts. */
export class Generator extends BaseGenerator {
  /**
   * Loads a model and starts the worker.
   * @param {import('./files/source.js').ModelSource} [source] the model that comes with the package
   *   unless given
   * @param {import('../types/generate.js').GeneratorLoadOptions} [options]
   * @returns {Promise<Generator>}
   */
  static async load(source, options) {
    const loaded = await load(watchHelpers(platform), own, source, options);
    return new Generator(loaded, languagesOf(platform, languages, loaded));
  }

  /**
   * Lets go of the model that stays for the next load when nothing uses it.
   */
  static releaseModels() {
    releaseModels();
  }
}
