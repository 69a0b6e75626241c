// SPDX-License-Identifier: Apache-2.0
// For the entries of require(), in every Node from 20 on: an ES module that is loaded when it is first used.
'use strict';

/**
 * Returns a function that loads the module once. A program that runs scripts in a context of its own, as
 * Jest does, may not allow import() there. Then Node's own import() loads it.
 * @template T
 * @param {() => Promise<T>} load has the import() with its literal name, which bundlers follow
 * @param {string} file in the folder above
 */
exports.lazy = (load, file) => {
  /** @type {Promise<T> | undefined} */
  let loading;
  const loadOnce = () =>
    (loading ??= load().catch((error) => {
      const { constants, runInThisContext } = /** @type {any} */ (require('node:vm'));
      const importModuleDynamically = constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
      if (!/^ERR_VM_DYNAMIC_IMPORT/.test(error?.code) || !importModuleDynamically) throw error;
      const load = runInThisContext('(url) => import(url)', { importModuleDynamically });
      return load(require('node:url').pathToFileURL(`${__dirname}/../${file}`).href);
    }));
  return Object.assign(loadOnce, { begun: () => loading !== undefined });
};

/**
 * Returns whether a value is of the class of that name in the ES module.
 * @param {string} name
 * @param {any} value
 */
const is = (name, value) => value?.[Symbol.for('wisp-engine')] === name;
exports.is = is;

/** For `error instanceof WispError`. */
exports.WispError = class WispError {
  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('WispError', value);
  }
};
