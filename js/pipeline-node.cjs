// SPDX-License-Identifier: Apache-2.0
// wisp-engine/pipeline for require().
'use strict';
const { is, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./pipeline-node.js'), 'pipeline-node.js');

/** @type {typeof import('./pipeline-node.js').pipeline} */
const pipeline = async (...given) => (await loadModule()).pipeline(...given);

/** For `error instanceof WispError`. */
class WispError {
  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('WispError', value);
  }
}

module.exports = { pipeline, WispError };
