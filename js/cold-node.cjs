// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold for require(). In Node, Embedder.load has the option cold without it.
'use strict';
const { WispError, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./cold-node.js'), 'cold-node.js');

module.exports = {
  WispError,
  NEURON: Object.freeze({ here: 1, coming: 2, needed: 4, skipped: 8 }),
  cache: {
    async list() {
      return (await loadModule()).cache.list();
    },
    /** @param {string | URL} [url] */
    async delete(url) {
      return (await loadModule()).cache.delete(url);
    },
    async persist() {
      return (await loadModule()).cache.persist();
    },
  },
};
