// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold for require(). In Node, Embedder.load has the option cold without it.
'use strict';
const { WispError } = require('./lazy.cjs');

module.exports = { WispError };
