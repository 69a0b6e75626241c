// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of models by range that a browser keeps run inside a page.
import { Embedder } from '../../../js/browser.js';
import { cache } from '../../../js/cold-browser.js';

const HOW = { mode: 'wait', gap: 64, first: 8192 };

/** @param {Float32Array} rows */
const bits = (rows) => Array.from(new Uint32Array(rows.buffer)).join();

/**
 * Returns the bits of the rows of the whole model.
 * @param {string} url
 * @param {string[]} texts
 */
export async function embedAll(url, texts) {
  const whole = await Embedder.load(url, { workers: 1, predictor: 'lowrank' });
  const rows = bits(await whole.embed(texts));
  await whole.close();
  return rows;
}

/**
 * Embeds texts by ranges; with `stays` when nothing is left to fetch and to store, or to wait for.
 * @param {string} url
 * @param {string[]} texts
 * @param {{ cold?: object, workers?: number, stays?: boolean, predictor?: any }} [options]
 */
export async function visitRanges(url, texts, { cold, workers = 1, stays, predictor } = {}) {
  /** @type {any} */
  const options = { workers, cold: { ...HOW, ...cold }, predictor };
  /** @type {Embedder | undefined} */
  let embedder;
  try {
    const loaded = (embedder = await Embedder.load(url, options));
    const rows = bits(await loaded.embed(texts));
    const stats = () => /** @type {any} */ (loaded.stats()).cold;
    const isDone = async () => {
      const { rest, storeError } = stats();
      if (rest === 'running') return false;
      const kept = (await cache.list()).find((each) => each.url === url);
      return rest !== 'done' || storeError || kept?.complete;
    };
    while (stays && !(await isDone())) await new Promise((resolve) => setTimeout(resolve, 10));
    return { rows, cold: stats() };
  } catch (error) {
    const { name, code, message } = /** @type {any} */ (error);
    return { error: { name, code, message } };
  } finally {
    await embedder?.destroy();
  }
}

export const listRanges = () => cache.list();

/** @param {string} [url] */
export const deleteRanges = (url) => cache.delete(url);

export const persistRanges = () => cache.persist();

/**
 * Changes one bit in the middle of each file of the store whose path matches.
 * @param {string} pattern
 */
export async function flipRanges(pattern) {
  const root = await navigator.storage.getDirectory();
  const own = await root.getDirectoryHandle('wisp-cold');
  const flipped = [];
  for await (const [folder, entries] of /** @type {any} */ (own).entries()) {
    for await (const [name, handle] of entries.entries()) {
      if (!new RegExp(pattern).test(`${folder}/${name}`)) continue;
      const bytes = new Uint8Array(await (await handle.getFile()).arrayBuffer());
      bytes[bytes.length >> 1] ^= 1;
      const writable = await handle.createWritable();
      await writable.write(bytes);
      await writable.close();
      flipped.push(name);
    }
  }
  return flipped;
}

/**
 * Lets the store have no more room after so many entries.
 * @param {number} entries
 */
export function fillStore(entries) {
  let left = entries;
  const { write } = FileSystemWritableFileStream.prototype;
  FileSystemWritableFileStream.prototype.write = function (data) {
    if (left-- > 0) return write.call(this, data);
    return Promise.reject(new DOMException('no room', 'QuotaExceededError'));
  };
}

/** Takes away what the browser would keep files in. @param {'files' | 'all'} what */
export function withoutStore(what) {
  delete (/** @type {any} */ (FileSystemFileHandle.prototype).createWritable);
  if (what === 'all') Object.defineProperty(globalThis, 'indexedDB', { value: undefined });
}
