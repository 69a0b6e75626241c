// SPDX-License-Identifier: Apache-2.0
// wisp-engine/langchain: an embedder as LangChain.js expects one. It needs nothing of @langchain/core: its vector stores
// and retrievers take any object with these two methods (EmbeddingsInterface).
import { checkOptions, checkString, wrong } from './base/options.js';

export { WispError } from './base/errors.js';

/** @typedef {import('../types/langchain.js').WispEmbeddingsOptions} WispEmbeddingsOptions */

/** See types/langchain.d.ts. */
export class WispEmbeddings {
  #embedder;
  #options;

  /** By this langchain.cjs recognises an object without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'WispEmbeddings';
  }

  /**
   * @param {Pick<import('../types/index.js').Embedder, 'embed'>} embedder
   * @param {WispEmbeddingsOptions} [options]
   */
  constructor(embedder, options = {}) {
    checkOptions(options, ['queryPrompt', 'documentPrompt', 'dimensions', 'signal']);
    if (typeof embedder?.embed !== 'function') throw wrong('embedder', 'not an Embedder');
    for (const name of /** @type {const} */ (['queryPrompt', 'documentPrompt'])) {
      if (options[name] !== undefined) checkString(options[name], name);
    }
    this.#embedder = embedder;
    this.#options = options;
  }

  /**
   * Embeds texts that are searched.
   * @param {string[]} documents
   * @returns {Promise<number[][]>}
   */
  async embedDocuments(documents) {
    const { documentPrompt: prompt, dimensions, signal } = this.#options;
    const rows = await this.#embedder.embed(documents, { prompt, dimensions, signal });
    return Array.from(rows, (row) => Array.from(row));
  }

  /**
   * Embeds a text that is searched for.
   * @param {string} document
   * @returns {Promise<number[]>}
   */
  async embedQuery(document) {
    const { queryPrompt: prompt, dimensions, signal } = this.#options;
    checkString(document, 'document');
    return Array.from(
      (await this.#embedder.embed(document, { prompt, dimensions, signal })).row(0),
    );
  }
}
