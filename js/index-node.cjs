// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index for require().
'use strict';
const { WispError, is, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./index-node.js'), 'index-node.js');

class Index {
  /** @param {[any, any?]} given */
  static async create(...given) {
    return (await loadModule()).Index.create(...given);
  }

  /** @param {[any, any?]} given */
  static async open(...given) {
    return (await loadModule()).Index.open(...given);
  }

  /** @param {[any, any?]} given */
  static async load(...given) {
    return (await loadModule()).Index.load(...given);
  }

  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('Index', value);
  }
}

module.exports = { Index, WispError };
