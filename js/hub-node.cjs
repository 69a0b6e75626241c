// SPDX-License-Identifier: Apache-2.0
// wisp-engine/hub for require().
'use strict';
const { is, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./hub-node.js'), 'hub-node.js');

/** For `error instanceof WispError`. */
class WispError {
  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('WispError', value);
  }
}

module.exports = {
  WispError,
  /**
   * @param {string} name
   * @param {import('../types/hub.js').HubOptions} [options]
   */
  async fromHub(name, options) {
    return (await loadModule()).fromHub(name, options);
  },
  /** @param {{ cacheDir?: string }} [options] */
  async listCached(options) {
    return (await loadModule()).listCached(options);
  },
  /** @param {string} [name] @param {{ cacheDir?: string }} [options] */
  async deleteCached(name, options) {
    return (await loadModule()).deleteCached(name, options);
  },
};
