// SPDX-License-Identifier: Apache-2.0
// The package for require().
'use strict';
const { WispError, is, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./node.js'), 'node.js');
let used = false;

class Embedder {
  /**
   * Loads a model and starts the workers.
   * @param {import('./source.js').ModelSource} [source]
   * @param {import('./load.js').LoadOptions} [options]
   * @returns {Promise<import('./node.js').Embedder>}
   */
  static async load(source, options) {
    used = true;
    return (await loadModule()).Embedder.load(source, options);
  }

  static releaseModels() {
    if (used) void loadModule().then((module) => module.Embedder.releaseModels());
  }

  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('Embedder', value);
  }
}

/** For `rows instanceof Rows`; the class itself is in the ES module, as those of the others are. */
class Rows {
  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('Rows', value);
  }
}

module.exports = { Embedder, Rows, WispError };
