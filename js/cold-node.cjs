// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold for require(). In Node, Embedder.load has the option cold without it.
'use strict';
const { is } = require('./lazy.cjs');

/** For `error instanceof WispError`. */
class WispError {
  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('WispError', value);
  }
}

module.exports = { WispError };
