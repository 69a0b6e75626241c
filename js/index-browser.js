// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index as a browser imports it: indexes in the origin's private file system (OPFS) and in
// IndexedDB.
import { WispError } from './errors.js';
import { wrong } from './options.js';
import { BaseIndex } from './vector-index.js';

export { WispError } from './errors.js';

const DATABASE = 'wisp-indexes';
const STORE = 'indexes';

/**
 * Where an index is.
 * @typedef {object} Place
 * @property {() => Promise<ArrayBuffer | undefined>} read resolves to undefined where there is none
 * @property {(bytes: ArrayBuffer) => Promise<void>} write changes all or nothing
 */

/** @param {string} name @returns {Place} */
function inFileSystem(name) {
  const folder = async () => {
    if (!navigator.storage?.getDirectory) throw new Error('this browser has no private files');
    return navigator.storage.getDirectory();
  };
  return {
    async read() {
      const root = await folder();
      const handle = await root.getFileHandle(name).catch((error) => {
        if (error?.name === 'NotFoundError') return undefined;
        throw error;
      });
      const file = await handle?.getFile();
      // A first write that failed leaves an empty file.
      return file?.size ? file.arrayBuffer() : undefined;
    },
    async write(bytes) {
      const handle = await (await folder()).getFileHandle(name, { create: true });
      // The stream writes to another file, which takes the place of this one when it is closed.
      const stream = await handle.createWritable();
      try {
        await stream.write(bytes);
      } catch (error) {
        await stream.abort().catch(() => {});
        throw error;
      }
      await stream.close();
    },
  };
}

/**
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} request
 * @returns {Promise<T>}
 */
async function inStore(mode, request) {
  const database = await new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode, { durability: 'strict' });
      const asked = request(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(asked.result);
      transaction.onabort = () => reject(transaction.error);
      transaction.onerror = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** @param {string} name @returns {Place} */
function inDatabase(name) {
  return {
    read: () => inStore('readonly', (store) => store.get(name)),
    write: async (bytes) => void (await inStore('readwrite', (store) => store.put(bytes, name))),
  };
}

/** @param {unknown} place @returns {Place} */
function placeOf(place) {
  const [, scheme, name] = /^(opfs|indexeddb):(.+)$/s.exec(String(place)) ?? [];
  if (scheme === 'opfs' && !/[/\\]/.test(name)) return inFileSystem(name);
  if (scheme === 'indexeddb') return inDatabase(name);
  throw wrong('place', `${place} is neither 'opfs:NAME' nor 'indexeddb:NAME'`);
}

/**
 * @param {unknown} place
 * @param {string} action
 * @param {any} cause
 */
const failed = (place, action, cause) =>
  new WispError('io', `${place}: cannot ${action}: ${cause?.message}`, { field: 'place', cause });

/** An index that the browser can keep. */
export class Index extends BaseIndex {
  /**
   * @param {string | URL} place 'opfs:NAME' or 'indexeddb:NAME'
   * @param {import('../types/vector-index.js').IndexEmbedder} [embedder]
   * @returns {Promise<Index>}
   */
  static async load(place, embedder) {
    const bytes = await placeOf(place)
      .read()
      .catch((error) => {
        throw failed(place, 'read', error);
      });
    if (!bytes) throw new WispError('not_found', `${place}: there is no index`, { field: 'place' });
    return Index.open(bytes, embedder);
  }

  /** @param {string | URL} place */
  async save(place) {
    const to = placeOf(place);
    await to.write(this.toBytes()).catch((error) => {
      throw failed(place, 'write', error);
    });
  }
}
