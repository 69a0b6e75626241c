// SPDX-License-Identifier: Apache-2.0
// wisp-engine/generate for require().
'use strict';
const { WispError, is, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./generate-node.js'), 'generate-node.js');
let used = false;

class Generator {
  /**
   * Loads a model and starts the worker.
   * @param {import('./source.js').ModelSource} [source]
   * @param {import('../types/generate.js').GeneratorLoadOptions} [options]
   * @returns {Promise<import('./generate-node.js').Generator>}
   */
  static async load(source, options) {
    used = true;
    return (await loadModule()).Generator.load(source, options);
  }

  static releaseModels() {
    if (used) void loadModule().then((module) => module.Generator.releaseModels());
  }

  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('Generator', value);
  }
}

module.exports = { Generator, WispError };
