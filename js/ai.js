// SPDX-License-Identifier: Apache-2.0
// wisp-engine/ai: an embedder as the AI SDK (the package ai) expects a model. It needs nothing of the SDK.
import { checkOptions, checkString, wrong } from './base/options.js';

export { WispError } from './base/errors.js';

/**
 * See types/ai.d.ts.
 * @param {Pick<import('../types/index.js').Embedder, 'embed' | 'countTokens' | 'info'>} embedder
 * @param {import('../types/ai.js').EmbeddingModelOptions<any>} [options]
 * @returns {import('../types/ai.js').WispEmbeddingModel<any>}
 */
export function embeddingModel(embedder, options = {}) {
  checkOptions(options, ['prompt', 'dimensions', 'specificationVersion']);
  const { specificationVersion = 'v4', prompt, dimensions } = options;
  if (!['v3', 'v4'].includes(specificationVersion)) {
    throw wrong('specificationVersion', `'${specificationVersion}' is neither 'v3' nor 'v4'`);
  }
  if (typeof embedder?.embed !== 'function') throw wrong('embedder', 'not an Embedder');
  if (prompt !== undefined) checkString(prompt, 'prompt');
  return {
    specificationVersion,
    provider: 'wisp',
    modelId: embedder.info().name,
    maxEmbeddingsPerCall: Infinity,
    supportsParallelCalls: true,
    async doEmbed({ values, dimensions: asked, abortSignal: signal, providerOptions }) {
      const own = providerOptions?.wisp ?? {};
      checkOptions(own, ['prompt', 'dimensions']);
      const how = { prompt, dimensions: asked ?? dimensions, ...own, signal };
      const [rows, tokens] = await Promise.all([
        embedder.embed(values, how),
        embedder.countTokens(values, { signal }),
      ]);
      return {
        embeddings: Array.from(rows, (row) => Array.from(row)),
        usage: { tokens: tokens.reduce((sum, count) => sum + count, 0) },
        warnings: [],
      };
    },
  };
}
