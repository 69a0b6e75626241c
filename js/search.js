// SPDX-License-Identifier: Apache-2.0
// wisp-engine/search: similarity of two texts or vectors, and the rows most similar to one. An embedder is
// given to each function, so that pages which only embed load nothing of this.
import { cosine } from './base/cosine.js';
import { throwIfAborted } from './base/errors.js';
import { checkOptions, wrong } from './base/options.js';
import { Best } from './index/best.js';
import { dotProducts } from './index/dot-kernel.js';
import { nextTask } from './platform/link-local.js';

export { WispError } from './base/errors.js';

/** @typedef {import('../types/search.js').Vector} Vector */

/** Values that are compared in one task: a page stays responsive, and can abort. */
const SLICE = 1 << 21;

/** @type {typeof import('../types/search.js').similarity} */
export async function similarity(embedder, a, b, options = {}) {
  checkOptions(options, ['prompt', 'signal']);
  throwIfAborted(options.signal);
  const given = [vectorOf(a, 'a'), vectorOf(b, 'b')];
  const dimensions = given[0]?.length ?? given[1]?.length;
  const texts = [a, b].filter((each) => typeof each === 'string');
  const rows = texts.length > 0 ? await embed(embedder, texts, { ...options, dimensions }) : [];
  const made = [...rows];
  const [x, y] = given.map((vector) => vector ?? /** @type {Vector} */ (made.shift()));
  if (x.length !== y.length) throw wrong('b', `of ${y.length} values, and a of ${x.length}`);
  return cosine(x, y);
}

/** @type {typeof import('../types/search.js').search} */
export async function search(embedder, query, options) {
  checkOptions(options, ['rows', 'k', 'dimensions', 'prompt', 'signal']);
  const { rows, k = 10, prompt, signal } = options;
  throwIfAborted(signal);
  if (!Number.isInteger(k) || k < 0) throw wrong('k', 'not a whole number from 0');
  const given = vectorOf(query, 'query');
  const size = sizeOf(rows, options.dimensions, given?.length ?? embedder?.dimensions);
  const how = { prompt, signal, dimensions: size };
  const vector = given ?? (await embed(embedder, [/** @type {string} */ (query)], how));
  if (vector.length !== size) throw wrong('query', `of ${vector.length} values; rows have ${size}`);
  const unit = unitOf(vector);
  const best = new Best(k);
  for (const { first, values } of slicesOf(rows, size)) {
    dotProducts(values, unit, (i, dot, squares) => {
      // Floats do not hold the squares of all floats.
      const fits = squares > 1e-30 && squares < 1e30;
      const score = fits
        ? dot / Math.sqrt(squares)
        : cosine(values.subarray(i * size, (i + 1) * size), unit);
      best.offer(first + i, score);
    });
    await new Promise((resolve) => nextTask(() => resolve(undefined)));
    throwIfAborted(signal);
  }
  return best.sorted();
}

/**
 * Embeds texts that somebody waits for.
 * @param {any} embedder
 * @param {string[]} texts
 * @param {import('../types/index.js').EmbedCallOptions} options
 * @returns {Promise<import('./calls/rows.js').Rows>}
 */
function embed(embedder, texts, options) {
  if (typeof embedder?.embed !== 'function') {
    throw wrong('embedder', 'not an Embedder, which a text needs');
  }
  return embedder.embed(texts, { ...options, priority: 'high' });
}

/**
 * Returns a vector, or undefined for a text.
 * @param {unknown} given
 * @param {string} field
 * @returns {Vector | undefined}
 */
function vectorOf(given, field) {
  if (typeof given === 'string') return undefined;
  if (given instanceof Float32Array || given instanceof Float64Array) return given;
  if (!Array.isArray(given))
    throw wrong(field, `of type ${typeof given}, neither a text nor a vector`);
  const at = given.findIndex((value) => typeof value !== 'number');
  if (at >= 0) throw wrong(`${field}[${at}]`, `of type ${typeof given[at]}, not a number`);
  return given;
}

/**
 * Returns the values of a row.
 * @param {import('../types/search.js').SearchOptions['rows']} rows
 * @param {number | undefined} asked
 * @param {number | undefined} otherwise if neither rows nor options tell
 */
function sizeOf(rows, asked, otherwise) {
  const isOne = rows instanceof Float32Array;
  if (!isOne && !Array.isArray(rows)) {
    throw wrong('rows', 'not Rows, a Float32Array or an array of vectors');
  }
  const own = isOne ? /** @type {any} */ (rows).dimensions : rows[0]?.length;
  const size = asked ?? own ?? otherwise;
  if (!Number.isInteger(size) || size < 1 || (own !== undefined && size !== own)) {
    throw wrong('dimensions', `${String(size)} is not the number of values of a row`);
  }
  if (isOne && rows.length % size !== 0) {
    throw wrong('rows', `${rows.length} values are not rows of ${size}`);
  }
  return size;
}

/**
 * @param {import('../types/search.js').SearchOptions['rows']} rows
 * @param {number} size
 */
function* slicesOf(rows, size) {
  const most = Math.ceil(SLICE / size);
  if (!Array.isArray(rows)) {
    const all = /** @type {Float32Array} */ (rows);
    for (let first = 0; first * size < all.length; first += most) {
      yield { first, values: all.subarray(first * size, (first + most) * size) };
    }
    return;
  }
  for (let first = 0; first < rows.length; first += most) {
    const end = Math.min(first + most, rows.length);
    const values = new Float32Array((end - first) * size);
    for (let i = first; i < end; i++) {
      const row = vectorOf(rows[i], `rows[${i}]`);
      if (row?.length !== size) throw wrong(`rows[${i}]`, `not a vector of ${size} values`);
      values.set(row, (i - first) * size);
    }
    yield { first, values };
  }
}

/**
 * Returns a vector of length 1, or of zeros.
 * @param {Vector} vector
 */
function unitOf(vector) {
  let squares = 0;
  for (let i = 0; i < vector.length; i++) squares += vector[i] * vector[i];
  if (!Number.isFinite(squares))
    throw wrong('query', 'has a value that is not a number or too large');
  const unit = new Float32Array(vector.length);
  for (let i = 0; i < unit.length; i++) unit[i] = vector[i] / (Math.sqrt(squares) || 1);
  return unit;
}
