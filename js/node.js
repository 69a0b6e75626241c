// SPDX-License-Identifier: Apache-2.0
// The package as Node imports it.
import { BaseEmbedder } from './calls/embedder.js';
import { load } from './calls/load.js';
import './cold-node.js';
import { own } from './embedding-node.js';
import { releaseModels } from './files/models.js';
import { platform } from './platform/platform-node.js';

export { WispError } from './base/errors.js';
export { Rows } from './calls/rows.js';

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

  /**
   * Lets go of the model that stays for the next load when no embedder uses it.
   */
  static releaseModels() {
    releaseModels();
  }
}
