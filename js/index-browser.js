// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index as a browser imports it: indexes in the origin's private file system (OPFS) and in
// IndexedDB.
import { WispError } from './base/errors.js';
import { checkOptions, wrong } from './base/options.js';
import { HEADER_BYTES, MAGIC, markOf, refuseChange } from './index/index-header.js';
import { BaseIndex } from './index/vector-index.js';

export { WispError } from './base/errors.js';

const DATABASE = 'wisp-indexes';
const STORE = 'indexes';

/**
 * Where an index is.
 * @typedef {object} Place
 * @property {() => Promise<ArrayBuffer | undefined>} read resolves to undefined if there is none
 * @property {(bytes: ArrayBuffer, check: Check) => Promise<void>} write changes all or nothing
 */

/**
 * Throws if what is there may not be replaced. Nobody else changes it until it has been.
 * @typedef {(there: ArrayBuffer) => void} Check
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
    async write(bytes, check) {
      const handle = await (await folder()).getFileHandle(name, { create: true });
      const stream = await streamOf(handle, bytes);
      try {
        await alone(name, async () => {
          const file = await handle.getFile();
          check(await file.slice(0, HEADER_BYTES).arrayBuffer());
          await stream.close();
        });
      } catch (error) {
        await stream.abort().catch(() => {});
        throw error;
      }
    },
  };
}

/** Bytes that Chromium passes to the process that writes in one go. */
const PIPE_BYTES = 32_768;

/**
 * Resolves to a stream that has the bytes. It writes to another file, which takes the place of the handle's when it is
 * closed.
 * @param {FileSystemFileHandle} handle
 * @param {ArrayBuffer} bytes
 * @param {number} [piece] bytes that are written at a time
 * @returns {Promise<FileSystemWritableFileStream>}
 */
async function streamOf(handle, bytes, piece = bytes.byteLength) {
  const stream = await handle.createWritable();
  try {
    for (let at = 0; at < bytes.byteLength; at += piece) {
      await stream.write(new Uint8Array(bytes, at, Math.min(piece, bytes.byteLength - at)));
    }
    return stream;
  } catch (/** @type {any} */ error) {
    await stream.abort().catch(() => {});
    // If a disk is full, the process that writes closes its end of a pipe and says why, and Chromium tells what it notices
    // first. Of pieces that fit the pipe it can only notice the reason.
    if (error?.name === 'AbortError' && piece > PIPE_BYTES) {
      return streamOf(handle, bytes, PIPE_BYTES);
    }
    throw error;
  }
}

/**
 * Runs work while no other tab replaces the file.
 * @param {string} name
 * @param {() => Promise<void>} work
 */
const alone = (name, work) =>
  navigator.locks ? navigator.locks.request(`wisp-index:${name}`, work) : work();

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
    async write(bytes, check) {
      /** @type {unknown} */
      let refused;
      // One transaction reads and writes, so that no other comes between.
      const written = inStore('readwrite', (store) => {
        const there = store.get(name);
        there.onsuccess = () => {
          try {
            check(there.result ?? new ArrayBuffer(0));
            store.put(bytes, name);
          } catch (error) {
            refused = error;
            there.transaction?.abort();
          }
        };
        return there;
      });
      await written.catch((error) => {
        throw refused ?? error;
      });
    },
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
  cause instanceof WispError
    ? cause
    : new WispError('io', `${place}: cannot ${action}: ${cause?.message}`, {
        field: 'place',
        cause,
      });

/**
 * Says why bytes could not be written. Browsers do not tell in one way that there is no room.
 * @param {unknown} place
 * @param {number} bytes
 * @param {any} cause
 */
async function failedWrite(place, bytes, cause) {
  const { quota = Infinity, usage = 0 } =
    (await navigator.storage?.estimate().catch(() => {})) ?? {};
  if (
    cause instanceof WispError ||
    !(cause?.name === 'QuotaExceededError' || usage + bytes > quota)
  ) {
    return failed(place, 'write', cause);
  }
  // Chromium tells a quota that says nothing of what is left.
  const limit =
    usage + bytes > quota ? ` (this site may keep ${quota} bytes and has ${usage})` : '';
  const message = `${place}: cannot write: not enough room for ${bytes} bytes${limit}`;
  return new WispError('io', message, { field: 'place', cause });
}

/** An index that the browser can keep. */
export class Index extends BaseIndex {
  /** The place that this is the contents of, and the mark of these. */
  #origin = { place: '', mark: '' };

  /**
   * @param {string | URL} place 'opfs:NAME' or 'indexeddb:NAME'
   * @param {import('../types/vector-index.js').IndexEmbedder} [embedder]
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<Index>}
   */
  static async load(place, embedder, options = {}) {
    checkOptions(options, ['signal']);
    const bytes = await placeOf(place)
      .read()
      .catch((error) => {
        throw failed(place, 'read', error);
      });
    if (!bytes) throw new WispError('not_found', `${place}: there is no index`, { field: 'place' });
    const index = await Index.open(bytes, embedder, options);
    index.#origin = { place: String(place), mark: markOf(bytes) };
    return index;
  }

  /**
   * @param {string | URL} place
   * @param {{ force?: boolean, signal?: AbortSignal }} [options]
   */
  async save(place, options = {}) {
    const to = placeOf(place);
    checkOptions(options, ['force', 'signal']);
    const bytes = await this.arrayBuffer({ signal: options.signal });
    const origin = this.#origin;
    /** @type {Check} */
    const check = (there) => {
      if (options.force || there.byteLength === 0) return;
      const beginning = new Uint8Array(there);
      if (MAGIC.some((c, i) => beginning[i] !== c)) {
        const message = `${place}: has something that is not an index; the option force replaces it`;
        throw new WispError('argument', message, { field: 'place' });
      }
      if (origin.place === String(place)) {
        refuseChange(place, 'place', origin.mark, markOf(there));
      }
    };
    await to.write(bytes, check).catch(async (error) => {
      throw await failedWrite(place, bytes.byteLength, error);
    });
    this.#origin = { place: String(place), mark: markOf(bytes) };
  }
}
