// SPDX-License-Identifier: Apache-2.0
// wisp-engine/search for require().
'use strict';
const { WispError, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./search.js'), 'search.js');

/** @type {typeof import('./search.js').similarity} */
const similarity = async (...given) => (await loadModule()).similarity(...given);

/** @type {typeof import('./search.js').search} */
const search = async (...given) => (await loadModule()).search(...given);

module.exports = { search, similarity, WispError };
