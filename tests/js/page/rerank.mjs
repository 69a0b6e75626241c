// SPDX-License-Identifier: Apache-2.0
// A reranker in a page.
import { Reranker } from '../../../js/rerank-browser.js';

/**
 * @param {string} name of a model of tests/data/models
 * @param {string} query
 * @param {string[]} texts
 * @param {number} workers
 */
export async function rerank(name, query, texts, workers) {
  const reranker = await Reranker.load(`/build/test-models/${name}.gguf`, { workers });
  const scores = [...(await reranker.scores(query, texts))];
  const best = await reranker.rank(query, texts, { topK: 1, returnDocuments: true });
  const { workers: used } = reranker.info();
  await reranker.close();
  return { scores, best, workers: used };
}
