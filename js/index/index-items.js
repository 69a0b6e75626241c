// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of an index: an embedder, ids, and items with their metadata.
import { WispError } from '../base/errors.js';
import { checkString, wrong } from '../base/options.js';

/** @typedef {import('../../types/vector-index.js').IndexItem} IndexItem */
/** @typedef {import('../../types/vector-index.js').IndexEmbedder} IndexEmbedder */

/** Returns what embeds, or undefined. @param {any} value @returns {IndexEmbedder | undefined} */
export function embedderOf(value) {
  return typeof value?.embed === 'function' && typeof value?.info === 'function'
    ? value
    : undefined;
}

/** A number is an id, too, as for `wisp index add`. @param {any} id @returns {string} */
export const idOf = (id) => (typeof id === 'number' && Number.isFinite(id) ? String(id) : id);

/**
 * Returns JSON of JSON.stringify with U+FFFD for halves of surrogate pairs, of which it makes escapes. Other readers of
 * JSON refuse these, and a text is embedded with U+FFFD, too.
 * @param {string} json
 */
const wellFormed = (json) =>
  json.includes('\\ud')
    ? json.replace(/\\(u[0-9a-f]{4}|.)/g, (all, escape) =>
        /^ud[89a-f]/.test(escape) ? '\ufffd' : all,
      )
    : json;

/**
 * Checks items, and returns what is kept of them beside their vectors, and their texts.
 * @param {readonly IndexItem[]} items
 * @returns {import('../platform/slices.js').Steps<{ entries: NonNullable<import('./index-sections.js').Entry>[], texts: string[] }>}
 */
export function* checkItems(items) {
  const entries = [];
  const texts = [];
  for (const [i, item] of items.entries()) {
    yield;
    const metadata = checkItem(item, `items[${i}]`);
    entries.push({ id: idOf(item.id), metadata });
    if (item.text !== undefined) texts.push(item.text);
  }
  return { entries, texts };
}

/**
 * Checks an item, and returns its metadata as JSON. A text is kept in it.
 * @param {IndexItem} item
 * @param {string} field
 */
function checkItem(item, field) {
  if (typeof item !== 'object' || item === null) throw wrong(field, 'not an object');
  const { text, vector, metadata } = item;
  const id = idOf(item.id);
  if (typeof id !== 'string' || id === '')
    throw wrong(`${field}.id`, 'not a string, or an empty one');
  // UTF-8 has no half of a pair, and two such ids would become one.
  if (/\p{Surrogate}/u.test(id)) throw wrong(`${field}.id`, 'has half of a surrogate pair');
  if ((text === undefined) === (vector === undefined)) {
    throw wrong(field, 'needs either a text or a vector');
  }
  if (text !== undefined) checkString(text, `${field}.text`);
  const isObject = typeof metadata === 'object' && metadata !== null && !Array.isArray(metadata);
  if (text !== undefined && metadata !== undefined && !isObject) {
    throw wrong(`${field}.metadata`, 'not an object, which that of a text must be');
  }
  const kept = text === undefined ? metadata : { text, .../** @type {object} */ (metadata) };
  try {
    return kept === undefined ? '' : wellFormed(JSON.stringify(kept) ?? '');
  } catch (cause) {
    const name = `${field}.metadata`;
    throw new WispError('argument', `${name}: cannot become JSON`, { field: name, cause });
  }
}
