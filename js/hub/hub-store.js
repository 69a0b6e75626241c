// SPDX-License-Identifier: Apache-2.0
// Models that a browser keeps, whatever the headers of the server say about its own cache. A model is stored in parts,
// so that a download can be continued after a reload, and described by an entry that is written last.
import { WispError } from '../base/errors.js';
import { openDatabase } from '../files/database-store.js';

/** @typedef {import('../files/database-store.js').Store} Store */

/** The bytes of a part; the last one of a model may have fewer. */
export const PART_BYTES = 8 * 1024 * 1024;

const NAME = 'wisp-models';

/** For environments that keep nothing, such as sandboxed frames: it forgets what is put into it. */
export const NOWHERE = /** @type {Store} */ ({
  get: async () => undefined,
  put: () => Promise.reject(new WispError('io', 'nothing can be stored here')),
  delete: async () => {},
  keys: async () => [],
});

/**
 * Opens the Cache API; if the page has none, because it is not secure, IndexedDB.
 * @returns {Promise<Store>}
 */
export async function openStore() {
  try {
    if (globalThis.caches) return ofCache(await caches.open(NAME));
  } catch {
    // a browser refuses it to some pages that it shows it to
  }
  try {
    return await openDatabase(NAME);
  } catch {
    return NOWHERE;
  }
}

/**
 * @param {Cache} cache
 * @returns {Store}
 */
const ofCache = (cache) => ({
  get: async (key) => (await cache.match(key))?.blob(),
  put: (key, blob) => cache.put(key, new Response(blob)),
  delete: (key) => cache.delete(key),
  keys: async () => (await cache.keys()).map(({ url }) => url),
});

/**
 * A model that is kept. Of `revisions`, the names under which it was loaded, none is left when the branch has moved.
 * @typedef {object} About
 * @property {string} url
 * @property {string} state of the file at that URL; 'hub': the URL names a commit, whose files do not change
 * @property {number} size
 * @property {string[]} revisions
 */

/**
 * Returns the key of a part, or of the description.
 * @param {{ url: string, state: string }} about
 * @param {number | 'about'} part
 */
export function keyOf({ url, state }, part) {
  const key = new URL(url);
  key.hash = '';
  key.searchParams.set('wisp-state', state);
  key.searchParams.set('wisp-part', String(part));
  return key.href;
}

/**
 * Reads a key back.
 * @param {string} key
 */
function ofKey(key) {
  const url = new URL(key);
  const state = url.searchParams.get('wisp-state') ?? '';
  const part = url.searchParams.get('wisp-part');
  url.searchParams.delete('wisp-state');
  url.searchParams.delete('wisp-part');
  return { url: url.href, state, part };
}

/**
 * Returns what is kept, complete or not.
 * @param {Store} store
 * @returns {Promise<{ url: string, state: string, keys: string[], about: About | undefined }[]>}
 */
export async function listKept(store) {
  const found = new Map();
  for (const key of await store.keys()) {
    const { url, state, part } = ofKey(key);
    const id = keyOf({ url, state }, 'about');
    if (!found.has(id)) found.set(id, { url, state, keys: [], about: undefined });
    const entry = found.get(id);
    entry.keys.push(key);
    if (part === 'about') entry.about = JSON.parse((await (await store.get(key))?.text()) ?? '{}');
  }
  return [...found.values()];
}

/**
 * Returns a model that is kept; undefined if it is not, or if the browser has dropped a part of it.
 * @param {Store} store
 * @param {{ url: string, state: string }} wanted
 * @returns {Promise<Blob | undefined>}
 */
export async function getKept(store, wanted) {
  const text = await (await store.get(keyOf(wanted, 'about')))?.text();
  if (!text) return undefined;
  const { size } = /** @type {About} */ (JSON.parse(text));
  const parts = [];
  for (let at = 0; at < size; at += PART_BYTES) {
    const part = await store.get(keyOf(wanted, parts.length));
    if (part?.size !== Math.min(PART_BYTES, size - at)) return undefined;
    parts.push(part);
  }
  return new Blob(parts);
}

/**
 * Describes a model whose parts are all stored.
 * @param {Store} store
 * @param {About} about
 */
export const putAbout = (store, about) =>
  store.put(keyOf(about, 'about'), new Blob([JSON.stringify(about)]));

/**
 * @param {Store} store
 * @param {readonly string[]} keys
 */
export async function deleteKeys(store, keys) {
  // First the description: a model that lacks parts must not look complete.
  for (const key of [...keys].sort().reverse()) await store.delete(key);
}
