// SPDX-License-Identifier: Apache-2.0
// The store of chunks in browsers: the origin's file system (OPFS), else IndexedDB, else the page's memory.
import { openDatabase } from '../files/database-store.js';

/** @typedef {import('./cold-store.js').Store} Store */

/** The folder, and the database. */
const NAME = 'wisp-cold';

/** How often a file is tried to be deleted, and the milliseconds between. */
const MOST_TRIES = 50;
const RETRY_MS = 20;

/** Says which files are in use by a lock for each, which pages share. */
const uses = {
  bound: () => Infinity,
  /** @param {string} header @returns {Promise<() => unknown>} */
  hold: (header) =>
    new Promise((resolve) => {
      const { locks } = navigator;
      if (!locks) return resolve(() => {}); // a page that is not secure has a store of its own
      const held = () => new Promise((end) => resolve(() => end(undefined)));
      void locks.request(lockOf(header), { mode: 'shared' }, held).catch(() => resolve(() => {}));
    }),
  /** @param {string} header */
  isHeld: async (header) =>
    (await navigator.locks?.request(
      lockOf(header),
      { ifAvailable: true },
      async (lock) => !lock,
    )) ?? false,
};

const lockOf = (/** @type {string} */ header) => `wisp-engine use ${header}`;

/** @returns {Promise<Store>} */
export async function openStore() {
  try {
    // Safari before 26 has such files, and writes them only in workers.
    if ('createWritable' in FileSystemFileHandle.prototype) return await openFolder();
  } catch {
    // not a secure page, or a private window
  }
  try {
    return ofBlobs('indexeddb', await openDatabase(NAME));
  } catch {
    return ofBlobs('memory', memory);
  }
}

/** @type {Map<string, Blob>} */
const kept = new Map();

/** Serves the embedders of this page, and ends with it. @type {import('../files/database-store.js').Store} */
const memory = {
  get: async (key) => kept.get(key),
  put: async (key, blob) => kept.set(key, blob),
  delete: async (key) => kept.delete(key),
  keys: async () => [...kept.keys()],
};

/**
 * Each entry is a file, which takes its place when all of it has been written. So no page sees a part of one, and
 * pages that write the same entry at a time write the same bytes.
 * @returns {Promise<Store>}
 */
async function openFolder() {
  const root = await navigator.storage.getDirectory();
  const own = await root.getDirectoryHandle(NAME, { create: true });
  /** @param {string} key @param {boolean} create @returns {Promise<[FileSystemDirectoryHandle, string]>} */
  const place = async (key, create) => {
    const [folder, name] = key.split('/');
    return [await own.getDirectoryHandle(folder, { create }), name];
  };
  return {
    ...uses,
    kind: 'opfs',
    async get(key) {
      const [folder, name] = await place(key, false);
      const file = await (await folder.getFileHandle(name)).getFile();
      return new Uint8Array(await file.arrayBuffer());
    },
    async put(key, bytes) {
      const [folder, name] = await place(key, true);
      const handle = await folder.getFileHandle(name, { create: true });
      const writable = await handle.createWritable();
      try {
        await writable.write(/** @type {any} */ (bytes));
        await writable.close();
      } catch (error) {
        await writable.abort().catch(() => {});
        // An entry that another page has written meanwhile stays.
        const { size } = await handle.getFile().catch(() => ({ size: -1 }));
        if (size === 0) await folder.removeEntry(name).catch(() => {});
        throw error;
      }
    },
    async delete(key) {
      const [folder, name] = key.includes('/') ? await place(key, false) : [own, key];
      for (let tries = 1; ; tries++) {
        try {
          return await folder.removeEntry(name, { recursive: true });
        } catch (error) {
          // It is being written.
          const { name: kind } = /** @type {Error} */ (error);
          if (kind !== 'NoModificationAllowedError' || tries === MOST_TRIES) throw error;
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
      }
    },
    async keys(folder) {
      try {
        const at = folder ? await own.getDirectoryHandle(folder) : own;
        const names = [];
        for await (const name of /** @type {any} */ (at).keys()) names.push(name);
        return names;
      } catch (error) {
        if (/** @type {Error} */ (error).name === 'NotFoundError') return [];
        throw error;
      }
    },
  };
}

/**
 * @param {Store['kind']} kind
 * @param {import('../files/database-store.js').Store} blobs
 * @returns {Store}
 */
const ofBlobs = (kind, blobs) => ({
  ...uses,
  kind,
  async get(key) {
    const blob = await blobs.get(key);
    return blob && new Uint8Array(await blob.arrayBuffer());
  },
  put: (key, bytes) => blobs.put(key, new Blob([/** @type {any} */ (bytes)])),
  async delete(key) {
    for (const each of await blobs.keys()) {
      if (each === key || each.startsWith(`${key}/`)) await blobs.delete(each);
    }
  },
  async keys(folder) {
    const keys = (await blobs.keys()).map((key) => key.split('/'));
    return folder
      ? keys.filter(([own]) => own === folder).map(([, name]) => name)
      : [...new Set(keys.map(([own]) => own))];
  },
});
