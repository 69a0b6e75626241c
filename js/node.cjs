// SPDX-License-Identifier: Apache-2.0
// The package for require(), in every Node from 20 on: loads the ES module when it is first used.
'use strict';

/** @type {Promise<typeof import('./node.js')> | undefined} */
let loading;

/**
 * A program that runs scripts in a context of its own, as Jest does, may not allow import() there. Then
 * Node's own require loads the module.
 */
function module_() {
  loading ??= import('./node.js').catch((error) => {
    const builtin = process.getBuiltinModule?.('node:module');
    if (!/^ERR_VM_DYNAMIC_IMPORT/.test(error?.code) || !builtin) throw error;
    return builtin.createRequire(__filename)('./node.js');
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
    return (await module_()).Embedder.load(source, options);
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
