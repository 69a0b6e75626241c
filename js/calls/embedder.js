// SPDX-License-Identifier: Apache-2.0
import { throwIfAborted } from '../base/errors.js';
import {
  BULK_OPTIONS,
  EMBED_OPTIONS,
  checkOption,
  checkOptions,
  checkString,
  wrong,
} from '../base/options.js';
import { EmbedJob } from './job.js';
import { LoadedModel } from './load.js';

/** The methods of types/index.d.ts. Made by Embedder.load. */
export class BaseEmbedder extends LoadedModel {
  #pool;

  /** By this node.cjs recognises an embedder without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'Embedder';
  }

  /** @param {import('../../types/internal.js').Loaded} loaded */
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
   * @type {(...given: Parameters<import('../../types/index.js').Embedder['embed']>) =>
   *   Promise<import('./rows.js').Rows>}
   */
  async embed(texts, options = {}) {
    checkOptions(options, EMBED_OPTIONS);
    const { prompt, dimensions, ...how } = options;
    checkOption(dimensions, 'dimensions', { is: 'whole', least: 1, most: this.dimensions });
    return this.#submit(texts, {
      options: { prompt, dimensions },
      dimensions: dimensions ?? this.dimensions,
      ...how,
    });
  }

  /** @type {(texts: any, options?: import('../../types/index.js').BulkOptions) => Promise<any>} */
  async countTokens(texts, options = {}) {
    checkOptions(options, BULK_OPTIONS);
    const counts = await this.#submit(texts, {
      type: 'count',
      options: {},
      dimensions: 1,
      ...options,
    });
    return typeof texts === 'string' ? counts[0] : [...counts.values()];
  }

  /**
   * @param {string | readonly string[]} texts
   * @param {Omit<import('../../types/internal.js').EmbedHow, 'maxTokens'>} how
   */
  async #submit(texts, how) {
    throwIfAborted(how.signal);
    const list = typeof texts === 'string' ? [texts] : texts;
    checkTexts(list);
    return this.#pool.submit(
      new EmbedJob([...list], { ...how, maxTokens: this.#engine.maxTokens }),
    );
  }
}

/** @param {readonly string[]} texts */
function checkTexts(texts) {
  if (!Array.isArray(texts)) {
    throw wrong('texts', 'not a string or an array of strings');
  }
  // forEach would skip holes.
  for (let i = 0; i < texts.length; i++)
    if (typeof texts[i] !== 'string') checkString(texts[i], `texts[${i}]`);
}
