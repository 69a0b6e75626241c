// SPDX-License-Identifier: Apache-2.0
// The package for require(), in every Node from 20 on: loads the ES module when it is first used.
'use strict';

const Embedder = {
  /**
   * Loads a model and starts the workers.
   * @param {import('./source.js').ModelSource} [source]
   * @param {import('./embedder.js').LoadOptions} [options]
   * @returns {Promise<import('./node.js').Embedder>}
   */
  async load(source, options) {
    const module = await import('./node.js');
    return module.Embedder.load(source, options);
  },
};

/** For `error instanceof WispError`; the class itself is in the ES module. */
class WispError {
  /** @param {any} error */
  static [Symbol.hasInstance](error) {
    return error instanceof Error && error.name === 'WispError';
  }
}

module.exports = { Embedder, WispError };
