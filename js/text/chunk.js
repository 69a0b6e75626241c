// SPDX-License-Identifier: Apache-2.0
// Chunks of a long text, by a model's own tokens.
import { throwIfAborted } from '../base/errors.js';
import { checkOptions, checkString, wrong } from '../base/options.js';
import { inSlices } from '../platform/slices.js';
import { graphemes, sentences, words } from './segments.js';

/**
 * A part of the text that stays whole: a sentence, or a part of one that is too long.
 * @typedef {object} Unit
 * @property {number} start
 * @property {number} end
 * @property {number} tokens without special tokens
 * @property {boolean} begins whether a chunk should begin here: it is the first part of a sentence that
 *   is too long for one chunk
 */

/**
 * Units that are to be a chunk.
 * @typedef {{ from: number, to: number }} Plan
 */

/** @typedef {import('../../types/text.js').Chunk} Chunk */

/** @type {typeof import('../../types/text.js').chunk} */
export async function chunk(embedder, text, options = {}) {
  checkOptions(options, ['tokens', 'overlap', 'locale', 'signal']);
  if (typeof embedder?.countTokens !== 'function') throw wrong('embedder', 'not an Embedder');
  const { overlap = 0, locale, signal } = options;
  checkString(text, 'text');
  if (locale !== undefined) checkString(locale, 'locale');
  throwIfAborted(signal);
  /** @param {string[]} texts */
  const count = (texts) => embedder.countTokens(texts, { signal, priority: 'low' });
  const special = (await count(['']))[0];
  const { tokens = embedder.info().maxTokens } = options;
  if (!Number.isInteger(tokens) || tokens <= special) {
    throw wrong(
      'tokens',
      `${String(tokens)} is not a whole number above ${special}, the special tokens`,
    );
  }
  if (!Number.isInteger(overlap) || overlap < 0 || overlap >= tokens - special) {
    throw wrong(
      'overlap',
      `${String(overlap)} is not a whole number from 0 to ${tokens - special - 1}`,
    );
  }
  const units = await unitsOf(text, { most: tokens - special, special, count, locale, signal });
  return pack(text, units, { tokens, special, overlap, count, signal });
}

/**
 * Divides a text into units.
 * @param {string} text
 * @param {object} how
 * @param {number} how.most tokens of a unit, without special tokens
 * @param {number} how.special tokens of every text
 * @param {(texts: string[]) => Promise<number[]>} how.count
 * @param {string | undefined} how.locale
 * @param {AbortSignal | undefined} how.signal
 * @returns {Promise<Unit[]>}
 */
async function unitsOf(text, { most, special, count, locale, signal }) {
  let units = [{ start: 0, end: text.length, tokens: Infinity, begins: false }];
  if (text === '') return [];
  for (const divide of [sentences, words, graphemes]) {
    const { all, fresh, texts } = await inSlices(
      divideAll(text, units, most, divide, locale),
      signal,
    );
    if (fresh.length === 0) return units;
    const counts = await count(texts);
    fresh.forEach((unit, i) => (unit.tokens = counts[i] - special));
    units = all;
  }
  const tooLong = units.find((unit) => unit.tokens > most);
  if (!tooLong) return units;
  const { start, end, tokens } = tooLong;
  const [least, name] = [tokens + special, JSON.stringify(text.slice(start, end))];
  throw wrong('tokens', `${most + special} are too few for ${name}, which takes ${least}`);
}

/**
 * Divides those units of a text that have too many tokens.
 * @param {string} text
 * @param {readonly Unit[]} units
 * @param {number} most tokens of a unit
 * @param {import('./segments.js').Divide} divide
 * @param {string | undefined} locale
 * @returns {import('../platform/slices.js').Steps<{ all: Unit[], fresh: Unit[], texts: string[] }>} all units, those that
 *   are new and not counted, and their texts
 */
function* divideAll(text, units, most, divide, locale) {
  /** @type {Unit[]} */
  const all = [];
  /** @type {Unit[]} */
  const fresh = [];
  const texts = [];
  for (const unit of units) {
    yield;
    if (unit.tokens <= most) {
      all.push(unit);
      continue;
    }
    let { start } = unit;
    for (const part of divide(text.slice(start, unit.end), locale)) {
      yield;
      const begins = divide === words ? start === unit.start : unit.begins && start === unit.start;
      const made = { start, end: start + part.length, tokens: NaN, begins };
      all.push(made);
      fresh.push(made);
      texts.push(part);
      start = made.end;
    }
  }
  return { all, fresh, texts };
}

/**
 * Joins units to chunks. The tokens of a joined text are hardly ever more than the sum of its parts', but
 * may be; so each chunk is counted, and one that has too many is made shorter.
 * @param {string} text
 * @param {Unit[]} units
 * @param {object} how
 * @param {number} how.tokens
 * @param {number} how.special
 * @param {number} how.overlap
 * @param {(texts: string[]) => Promise<number[]>} how.count
 * @param {AbortSignal | undefined} how.signal
 * @returns {Promise<Chunk[]>}
 */
async function pack(text, units, { tokens, special, overlap, count, signal }) {
  /** @type {Chunk[]} */
  const chunks = [];
  let from = -1; // the first unit of the last chunk
  let first = 0; // the first unit that no chunk has
  /** @type {Plan | undefined} the next chunk, if the planned one had too many tokens */
  let shorter;
  while (first < units.length) {
    const planning = planAll(units, { from, to: first }, shorter, tokens - special, overlap);
    const plans = await inSlices(planning, signal);
    shorter = undefined;
    const texts = plans.map((each) => text.slice(units[each.from].start, units[each.to - 1].end));
    const counts = await count(texts);
    for (const [i, each] of plans.entries()) {
      if (counts[i] > tokens) {
        // It drops what only it has, and at last the overlap.
        const { from, to } = each;
        shorter = to > first + 1 ? { from, to: to - 1 } : { from: from + 1, to };
        break;
      }
      const { start } = units[each.from];
      const { end } = units[each.to - 1];
      chunks.push({ text: texts[i], start, end, tokens: counts[i] });
      from = each.from;
      first = each.to;
    }
  }
  return chunks;
}

/**
 * Plans the chunks after `last`, of which the first may be given.
 * @param {Unit[]} units
 * @param {Plan} last
 * @param {Plan | undefined} next
 * @param {number} most tokens of a chunk
 * @param {number} overlap
 * @returns {import('../platform/slices.js').Steps<Plan[]>}
 */
function* planAll(units, last, next, most, overlap) {
  const plans = [];
  while (last.to < units.length) {
    yield;
    last = next ?? plan(units, last, most, overlap);
    next = undefined;
    plans.push(last);
  }
  return plans;
}

/**
 * Plans the chunk after `last`: with as many of its last units as the overlap has room for, and as many
 * new ones as a chunk has room for, but at least one.
 * @param {Unit[]} units
 * @param {Plan} last
 * @param {number} most tokens of a chunk
 * @param {number} overlap
 * @returns {Plan}
 */
function plan(units, last, most, overlap) {
  let from = last.to;
  let to = last.to + 1;
  let tokens = units[from].tokens;
  let room = overlap;
  while (from > last.from + 1 && room > 0) {
    const more = units[from - 1].tokens;
    if (more > Math.min(room, most - tokens)) break;
    from--;
    room -= more;
    tokens += more;
  }
  for (; to < units.length && !units[to].begins && tokens + units[to].tokens <= most; to++) {
    tokens += units[to].tokens;
  }
  return { from, to };
}
