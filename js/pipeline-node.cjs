// SPDX-License-Identifier: Apache-2.0
// wisp-engine/pipeline for require().
'use strict';
const { WispError, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./pipeline-node.js'), 'pipeline-node.js');

/** @type {typeof import('./pipeline-node.js').pipeline} */
const pipeline = async (...given) => (await loadModule()).pipeline(...given);

module.exports = { pipeline, WispError };
