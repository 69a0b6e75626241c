// SPDX-License-Identifier: Apache-2.0
// The package for require(), in every Node from 20 on: loads the ES module when it is first used.
'use strict';

/** @type {Promise<typeof import('./node.js')> | undefined} */
let loading;

/**
 * A program that runs scripts in a context of its own, as Jest does, may not allow import() there. Then
 * Node's own import() loads the module.
 */
function loadModule() {
  loading ??= import('./node.js').catch((error) => {
    const { constants, runInThisContext } = /** @type {any} */ (require('node:vm'));
    const importModuleDynamically = constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
    if (!/^ERR_VM_DYNAMIC_IMPORT/.test(error?.code) || !importModuleDynamically) throw error;
    const load = runInThisContext('(url) => import(url)', { importModuleDynamically });
    return load(require('node:url').pathToFileURL(`${__dirname}/node.js`).href);
  });
  return loading;
}

/**
 * @param {string} name
 * @param {any} value
 */
const is = (name, value) => value?.[Symbol.for('wisp-engine')] === name;

class Embedder {
  /**
   * Loads a model and starts the workers.
   * @param {import('./source.js').ModelSource} [source]
   * @param {import('./embedder.js').LoadOptions} [options]
   * @returns {Promise<import('./node.js').Embedder>}
   */
  static async load(source, options) {
    return (await loadModule()).Embedder.load(source, options);
  }

  static releaseModels() {
    void loading?.then((module) => module.Embedder.releaseModels());
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

/** For `error instanceof WispError`. */
class WispError {
  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('WispError', value);
  }
}

module.exports = { Embedder, Rows, WispError };
