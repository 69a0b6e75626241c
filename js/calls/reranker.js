// SPDX-License-Identifier: Apache-2.0
import { WispError, throwIfAborted } from '../base/errors.js';
import { BULK_OPTIONS, checkOptions, checkString, wrong } from '../base/options.js';
import { EmbedJob } from './job.js';
import { LoadedModel, load } from './load.js';

/** @typedef {import('../../types/index.js').BulkOptions} BulkOptions */

/** Options of load that only embedders have. */
const NOT_FOR_RERANKERS = /** @type {const} */ (['cold', 'memory', 'threads']);

/** @type {Record<string, import('../base/options.js').Option>} */
const RANK_OPTIONS = {
  ...BULK_OPTIONS,
  topK: { is: 'whole', least: 1 },
  returnDocuments: { is: 'flag' },
};

/**
 * Loads a model that scores texts.
 * @param {import('../../types/internal.js').Platform} platform
 * @param {import('../../types/internal.js').Own} own
 * @param {import('../files/source.js').ModelSource} source
 * @param {import('./load.js').LoadOptions} [options]
 */
export async function loadReranker(platform, own, source, options = {}) {
  if (source === undefined) throw wrong('source', 'the package has no model that scores texts: name one'); // prettier-ignore
  for (const name of NOT_FOR_RERANKERS)
    if (options?.[name] !== undefined) throw wrong(name, 'rerankers do not have this option');
  const loaded = await load(platform, own, source, options);
  if (loaded.pool.info?.ranks) return loaded;
  await loaded.pool.destroy();
  await loaded.release();
  throw new WispError('unsupported', 'the model does not score pairs of texts: it is not a cross-encoder', { field: 'pooling' }); // prettier-ignore
}

/** The methods of types/rerank.d.ts. Made by Reranker.load. */
export class BaseReranker extends LoadedModel {
  #pool;

  /** @param {import('../../types/internal.js').Loaded} loaded */
  constructor(loaded) {
    super(loaded);
    this.#pool = loaded.pool;
  }

  /**
   * @param {string} query
   * @param {readonly string[]} texts
   * @param {BulkOptions} [options]
   * @returns {Promise<Float32Array>}
   */
  async scores(query, texts, options = {}) {
    checkOptions(options, BULK_OPTIONS);
    checkString(query, 'query');
    checkTexts(texts, 'texts');
    throwIfAborted(options.signal);
    const { maxTokens } = /** @type {NonNullable<import('./pool.js').Pool['info']>} */ (
      this.#pool.info
    );
    const how = { type: /** @type {const} */ ('rank'), options: { query }, dimensions: 1 };
    const rows = await this.#pool.submit(
      new EmbedJob([...texts], { ...how, ...options, maxTokens }),
    );
    return new Float32Array(rows.buffer);
  }

  /**
   * @param {readonly (readonly [query: string, text: string])[]} pairs
   * @param {import('../../types/index.js').CallOptions} [options]
   */
  async predict(pairs, options = {}) {
    checkOptions(options, ['signal']);
    if (!Array.isArray(pairs)) throw wrong('pairs', 'not an array of pairs of texts');
    /** @type {Map<string, number[]>} where the pairs of a query are */
    const places = new Map();
    pairs.forEach((pair, i) => {
      if (!Array.isArray(pair) || pair.length !== 2) throw wrong(`pairs[${i}]`, 'not a pair of texts'); // prettier-ignore
      checkTexts(pair, `pairs[${i}]`);
      const same = places.get(pair[0]);
      if (same) same.push(i);
      else places.set(pair[0], [i]);
    });
    const scores = new Float32Array(pairs.length);
    const calls = Array.from(places, async ([query, at]) => {
      const texts = at.map((i) => pairs[i][1]);
      const found = await this.scores(query, texts, options);
      at.forEach((i, j) => (scores[i] = found[j]));
    });
    await Promise.all(calls);
    return scores;
  }

  /**
   * @param {string} query
   * @param {readonly string[]} documents
   * @param {import('../../types/rerank.js').RankOptions} [options]
   */
  async rank(query, documents, options = {}) {
    checkOptions(options, RANK_OPTIONS);
    const { topK, returnDocuments = false, ...bulk } = options;
    const scores = await this.scores(query, documents, bulk);
    return Array.from(scores, (score, index) => ({ index, score }))
      .sort((a, b) => b.score - a.score || a.index - b.index)
      .slice(0, topK)
      .map((one) => (returnDocuments ? { ...one, text: documents[one.index] } : one));
  }
}

/**
 * @param {readonly string[]} texts
 * @param {string} name
 */
function checkTexts(texts, name) {
  if (!Array.isArray(texts)) throw wrong(name, 'not an array of strings');
  // forEach would skip holes.
  for (let i = 0; i < texts.length; i++)
    if (typeof texts[i] !== 'string') checkString(texts[i], `${name}[${i}]`);
}
