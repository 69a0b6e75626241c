// SPDX-License-Identifier: Apache-2.0
// wisp-engine/threads for require(). In Node, Embedder.load has the option threads without it.
'use strict';
const { WispError } = require('./lazy.cjs');

module.exports = { WispError };
