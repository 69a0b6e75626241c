// SPDX-License-Identifier: Apache-2.0
// wisp-engine/search for require().
'use strict';
const { is, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./search.js'), 'search.js');

/** @type {typeof import('./search.js').similarity} */
const similarity = async (...given) => (await loadModule()).similarity(...given);

/** @type {typeof import('./search.js').search} */
const search = async (...given) => (await loadModule()).search(...given);

/** For `error instanceof WispError`. */
class WispError {
  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('WispError', value);
  }
}

module.exports = { search, similarity, WispError };
