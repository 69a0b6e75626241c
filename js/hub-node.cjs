// SPDX-License-Identifier: Apache-2.0
// wisp-engine/hub for require().
'use strict';
const { WispError, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./hub-node.js'), 'hub-node.js');

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
