// SPDX-License-Identifier: Apache-2.0
// wisp-engine/ai for require().
'use strict';
const { WispError, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./ai.js'), 'ai.js');

/** @type {typeof import('./ai.js').embeddingModel} */
const embeddingModel = (embedder, options) => ({
  specificationVersion: options?.specificationVersion ?? 'v4',
  provider: 'wisp',
  modelId: embedder.info().name,
  maxEmbeddingsPerCall: Infinity,
  supportsParallelCalls: true,
  // The ES module says what is wrong with the options.
  doEmbed: async (call) => (await loadModule()).embeddingModel(embedder, options).doEmbed(call),
});

module.exports = { embeddingModel, WispError };
