// SPDX-License-Identifier: Apache-2.0
// IndexedDB as a store of Blobs by name.

/**
 * @typedef {object} Store
 * @property {(key: string) => Promise<Blob | undefined>} get
 * @property {(key: string, blob: Blob) => Promise<unknown>} put rejects if there is no room
 * @property {(key: string) => Promise<unknown>} delete
 * @property {() => Promise<string[]>} keys
 */

/**
 * Opens a database with one object store, both of that name. Rejects if the page may have none.
 * @param {string} name
 * @returns {Promise<Store>}
 */
export async function openDatabase(name) {
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(name);
  const database = await answer(opening);
  /** @param {IDBTransactionMode} mode */
  const begin = (mode) => database.transaction(name, mode);
  /** @param {(files: IDBObjectStore) => IDBRequest} change */
  const write = async (change) => {
    const transaction = begin('readwrite');
    const written = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    change(transaction.objectStore(name));
    return written;
  };
  return {
    get: (key) => answer(begin('readonly').objectStore(name).get(key)),
    put: (key, blob) => write((files) => files.put(blob, key)),
    delete: (key) => write((files) => files.delete(key)),
    keys: async () => (await answer(begin('readonly').objectStore(name).getAllKeys())).map(String),
  };
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function answer(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
