// SPDX-License-Identifier: Apache-2.0
// Damaged models through the package, in Node and in pages.
import { check } from '../pool/checks.mjs';
import { sameBits } from './bits.mjs';
import { makeMutant } from './mutants.mjs';
import { Random } from './random.mjs';
import { settled } from './settled.mjs';

/** @typedef {import('../../../js/node.js').Embedder} Embedder */

/** Codes that a damaged model may fail with. A trap or a lost worker is a fault of wisp. */
const EXPECTED = ['format', 'unsupported', 'memory', 'not_found', 'argument'];

const TEXTS = [
  '',
  'water',
  'Find the WATER, down the hill\u00e9 \u6c34.',
  'words and more '.repeat(60),
];

/**
 * A model that did not give what it should, with what is needed to make it again.
 */
export class MutantError extends Error {
  /**
   * @param {string} name
   * @param {unknown} cause
   * @param {Uint8Array} bytes
   */
  constructor(name, cause, bytes) {
    super(`${name}: ${/** @type {Error} */ (cause).message}`, { cause });
    this.bytes = bytes;
  }
}

/**
 * Makes `count` damaged models, the first of number `first`, and loads each: it gives rows of finite
 * numbers, and the same ones twice, or a typed error. A good model gives the same bits after each.
 * @param {object} how
 * @param {typeof import('../../../js/node.js').Embedder} how.Embedder
 * @param {import('./mutants.mjs').Original[]} how.originals
 * @param {number} how.seed
 * @param {number} how.first
 * @param {number} how.count
 * @param {number} how.workers of each embedder; 0 is the quickest
 * @param {(number: number) => void} [how.before] is called before each model
 * @returns {Promise<Record<string, number>>} how often each outcome was seen
 */
export async function tryMutants({ Embedder, originals, seed, first, count, workers, before }) {
  /** @type {Record<string, number>} */
  const counts = { models: count };
  const good = await Embedder.load(originals[0].bytes, { workers });
  const expected = await good.embed(TEXTS);
  try {
    for (let number = first; number < first + count; number++) {
      before?.(number);
      const random = new Random(Math.imul(seed, 0x9e3779b1) ^ number);
      const { way, bytes } = makeMutant(random, originals);
      try {
        const outcome = await settled(tryModel(Embedder, bytes, { workers, ...options(random) }));
        counts[outcome] = (counts[outcome] ?? 0) + 1;
        sameBits(await settled(good.embed(TEXTS)), expected);
      } catch (cause) {
        throw new MutantError(`model ${number} of seed ${seed} (${way})`, cause, bytes);
      }
    }
    const next = await Embedder.load(originals[0].bytes, { workers });
    sameBits(await settled(next.embed(TEXTS)), expected);
    await next.close();
  } finally {
    await good.destroy();
  }
  return counts;
}

/**
 * @param {Random} random
 * @returns {import('../../../types/index.js').LoadOptions}
 */
function options(random) {
  return {
    compute: random.pick([undefined, undefined, 'f32', 'int8']),
    predictor: random.pick([undefined, undefined, 'dense', 'exact', 'lowrank', 'sentence']),
    recall: random.oneIn(8),
  };
}

/**
 * @param {typeof import('../../../js/node.js').Embedder} Embedder
 * @param {Uint8Array} bytes
 * @param {import('../../../types/index.js').LoadOptions} how
 * @returns {Promise<string>} the outcome
 */
async function tryModel(Embedder, bytes, how) {
  /** @type {Embedder} */
  let embedder;
  try {
    embedder = await Embedder.load(bytes, how);
  } catch (error) {
    return `refused as ${expectedCode(error)}`;
  }
  try {
    const { dimensions, maxTokens, vocabularySize } = embedder.info();
    const rows = await embedder.embed(TEXTS);
    check(rows.count === TEXTS.length, `${rows.count} rows`);
    check(rows.length === TEXTS.length * dimensions, `${rows.length} values`);
    check(rows.every(Number.isFinite), 'a value is not finite');
    sameBits(await embedder.embed(TEXTS), rows);
    const ids = await embedder.tokenize(TEXTS[3]);
    check(ids.length >= 2 && ids.length <= maxTokens, `${ids.length} tokens`);
    check(
      ids.every((id) => id >= 0 && id < vocabularySize),
      'an id is not a token',
    );
    check(embedder.stats().texts === 2 * TEXTS.length, 'texts are not counted');
    return 'embedded';
  } catch (error) {
    return `failed as ${expectedCode(error)}`;
  } finally {
    await embedder.destroy();
  }
}

/** @param {any} error */
function expectedCode(error) {
  if (error?.name === 'WispError' && EXPECTED.includes(error.code)) return error.code;
  throw error;
}
