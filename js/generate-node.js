// SPDX-License-Identifier: Apache-2.0
// wisp-engine/generate as Node imports it.
import { Worker } from 'node:worker_threads';
import { generationFiles } from './generation.js';
import { BaseGenerator } from './generator.js';
import { load } from './load.js';
import { releaseModels } from './models.js';
import { platform, WORKER_OPTIONS } from './platform-node.js';

export { WispError } from './errors.js';

// Bundlers recognise exactly this expression.
const own = generationFiles(
  'generate-worker-node',
  () => new Worker(new URL('./generate-worker-node.js', import.meta.url), WORKER_OPTIONS),
);

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
    return new Generator(await load(platform, own, source, options));
  }

  /**
   * Lets go of the model that stays for the next load when nothing uses it.
   */
  static releaseModels() {
    releaseModels();
  }
}
