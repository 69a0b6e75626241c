// SPDX-License-Identifier: Apache-2.0
// The package as Node imports it.
import './cold-node.js';
import { BaseEmbedder } from './embedder.js';
import { own } from './embedding-node.js';
import { load } from './load.js';
import { releaseModels } from './models.js';
import { platform } from './platform-node.js';

export { WispError } from './errors.js';
export { Rows } from './rows.js';

/** A model that embeds texts. */
export class Embedder extends BaseEmbedder {
  /**
   * Loads a model and starts the workers.
   * @param {import('./source.js').ModelSource} [source] the model that comes with the package
   *   unless given
   * @param {import('./load.js').LoadOptions} [options]
   * @returns {Promise<Embedder>}
   */
  static async load(source, options) {
    return new Embedder(await load(platform, own, source, options));
  }

  /**
   * Lets go of the model that stays for the next load when no embedder uses it.
   */
  static releaseModels() {
    releaseModels();
  }
}
