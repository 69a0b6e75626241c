// SPDX-License-Identifier: Apache-2.0
import { throwIfAborted } from './errors.js';
import { EmbedJob } from './job.js';
import { LoadedModel } from './load.js';
import { checkOptions, checkString, wrong } from './options.js';

/** A model that embeds texts, by workers that share the load. Made by Embedder.load. */
export class BaseEmbedder extends LoadedModel {
  #pool;

  /** By this node.cjs recognises an embedder without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'Embedder';
  }

  /** @param {import('./load.js').Loaded} loaded */
  constructor(loaded) {
    super(loaded);
    this.#pool = loaded.pool;
  }

  get #engine() {
    return /** @type {NonNullable<import('./pool.js').Pool['info']>} */ (this.#pool.info);
  }

  /** Values of one embedding. */
  get dimensions() {
    return this.#engine.dimensions;
  }

  /**
   * Resolves to a row for each text, in their order. The bits of a row depend on its text, the model
   * and the options, and not on other texts or the workers. Single texts go before bulk work.
   * @param {string | readonly string[]} texts
   * @param {import('../types/index.js').EmbedCallOptions} [options]
   * @returns {Promise<import('./rows.js').Rows>}
   */
  async embed(texts, options = {}) {
    checkOptions(options, ['signal', 'onProgress', 'prompt', 'dimensions']);
    const { signal, onProgress, prompt, dimensions } = options;
    throwIfAborted(signal);
    const list = typeof texts === 'string' ? [texts] : texts;
    checkTexts(list);
    checkDimensions(dimensions, this.dimensions);
    checkString(prompt ?? '', 'prompt');
    return this.#pool.submit(
      new EmbedJob([...list], {
        options: { prompt, dimensions },
        dimensions: dimensions ?? this.dimensions,
        maxTokens: this.#engine.maxTokens,
        signal,
        onProgress,
      }),
    );
  }
}

/** @param {readonly string[]} texts */
function checkTexts(texts) {
  if (!Array.isArray(texts)) {
    throw wrong('texts', 'not a string or an array of strings');
  }
  // forEach would skip holes.
  for (let i = 0; i < texts.length; i++) checkString(texts[i], `texts[${i}]`);
}

/**
 * @param {number | undefined} dimensions
 * @param {number} most
 */
function checkDimensions(dimensions, most) {
  if (dimensions === undefined) return;
  if (Number.isInteger(dimensions) && dimensions >= 1 && dimensions <= most) return;
  throw wrong('dimensions', `${dimensions} is not a whole number from 1 to ${most}`);
}
