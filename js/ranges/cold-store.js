// SPDX-License-Identifier: Apache-2.0
// wisp's own store of models by range. Its entries, by their keys:
//
//   urls/HASH          what was last opened from a URL (About), behind the SHA-256 of that text
//   HEADER/header      the bytes before the first chunk; HEADER is their SHA-256
//   HEADER/FIRST-N     N chunks from number FIRST on
//
// An entry is written whole or not at all, never changed, and compared with its hash whenever it is read. So pages and
// processes need no lock to share a store: they write the same bytes, and what one deletes another fetches again.
import { WispError } from '../base/errors.js';
import { RangeSet, lengthOf } from './cold-ranges.js';
import { ChunkTable, readTable, sha256 } from './cold-table.js';

/** @typedef {import('./cold-ranges.js').Range} Range */
/** @typedef {import('../../types/protocol.js').Piece} Piece */

/**
 * @typedef {object} Store
 * @property {'opfs' | 'indexeddb' | 'memory' | 'folder'} kind
 * @property {(key: string) => Promise<Uint8Array | undefined>} get may reject
 * @property {(key: string, bytes: Uint8Array) => Promise<unknown>} put rejects if there is no room
 * @property {(key: string) => Promise<unknown>} delete an entry, or all with this first part
 * @property {(folder: string) => Promise<string[]>} keys the second parts of the keys with this first part; with ''
 *   all first parts
 * @property {() => number} bound the most bytes of all files together
 * @property {(header: string) => Promise<() => unknown>} hold says that a file is in use until what it returns is called
 * @property {(header: string) => Promise<boolean>} isHeld by this page or process or another
 */

/**
 * A file that was opened from a URL.
 * @typedef {object} About
 * @property {string} url
 * @property {string | null} state of the file, as the server names it
 * @property {string} header the SHA-256 of the header
 * @property {ChunkTable['places']} places
 * @property {number} [used] when it was opened last, in milliseconds; earlier versions did not say so
 */

/** The most bytes of an entry. */
const MOST_BYTES = 4 * 1024 * 1024;

const URLS = 'urls';

/** @param {string} url */
const keyOf = async (url) => `${URLS}/${await sha256(new TextEncoder().encode(url))}`;

/**
 * @param {Store} store
 * @param {string} key
 * @returns {Promise<About | undefined>}
 */
async function readAbout(store, key) {
  const bytes = await store.get(key).catch(() => undefined);
  const [hash, text] = new TextDecoder().decode(bytes).split('\n');
  if (!text || hash !== (await sha256(new TextEncoder().encode(text)))) return undefined;
  return JSON.parse(text);
}

/**
 * Returns what is known of a URL's file, and its header; else of the file of a URL that differs only in its query.
 * @param {Store} store
 * @param {string} url
 * @returns {Promise<{ about: About, header: Uint8Array, chunks: KeptChunks } | undefined>}
 */
export async function findKept(store, url) {
  const isSame = (/** @type {About} */ other) => withoutQuery(other.url) === withoutQuery(url);
  const about =
    (await readAbout(store, await keyOf(url))) ??
    (await readAll(store)).map((each) => each.about).find(isSame);
  const header = about && (await store.get(`${about.header}/header`).catch(() => undefined));
  if (!header || (await sha256(header)) !== about.header) return undefined;
  const { cold, end } = about.places;
  const table = readTable(header, cold, end);
  return table && { about, header, chunks: await KeptChunks.open(store, about.header, table) };
}

/**
 * Keeps what is known of a URL's file, before its chunks, and deletes those of files that no URL has any more.
 * @param {Store} store
 * @param {About} about
 * @param {Uint8Array} [header] undefined if it is kept
 */
async function keepAbout(store, about, header) {
  const text = JSON.stringify(about);
  const bytes = new TextEncoder().encode(text);
  const lines = new TextEncoder().encode(`${await sha256(bytes)}\n${text}`);
  await store.put(await keyOf(about.url), lines);
  if (header) await store.put(`${about.header}/header`, header);
  // Addresses that are signed again each time differ in their query, and have the same file.
  for (const { key, about: other } of await readAll(store)) {
    const isSame =
      other.header === about.header && withoutQuery(other.url) === withoutQuery(about.url);
    if (isSame && other.url !== about.url) await store.delete(key).catch(() => {});
  }
  await sweep(store);
  await makeRoom(store, about, about.places.end);
}

const withoutQuery = (/** @type {string} */ url) => url.replace(/[?#].*/s, '');

/** Milliseconds by which the clocks of two tabs or processes may differ. */
const CLOCK_STEP = 60_000;

/**
 * Deletes the file that was used longest ago, of those that nobody uses. Returns whether there was one.
 * @param {Store} store
 * @param {string} own the header of one that stays
 */
async function deleteOldest(store, own) {
  const all = await readAll(store);
  /** @type {Map<string, number>} */
  const used = new Map();
  // A time of the future is from before a clock was set back, and so the earliest.
  const latest = Date.now() + CLOCK_STEP;
  for (const { about } of all) {
    const time = about.used && about.used <= latest ? about.used : 0;
    used.set(about.header, Math.max(time, used.get(about.header) ?? 0));
  }
  used.delete(own);
  for (const [header] of [...used].sort((a, b) => a[1] - b[1])) {
    if (await store.isHeld(header)) continue;
    for (const { key, about } of all) if (about.header === header) await store.delete(key);
    await sweep(store);
    return true;
  }
  return false;
}

/**
 * Deletes files until the store keeps its bound with so many bytes of one more.
 * @param {Store} store
 * @param {About} own
 * @param {number} bytes
 */
async function makeRoom(store, own, bytes) {
  for (const bound = store.bound(); bound < Infinity;) {
    const sizes = new Map((await listKept(store)).map((each) => [each.sha256, each.bytes]));
    sizes.set(own.header, bytes);
    const total = [...sizes.values()].reduce((sum, each) => sum + each, 0);
    if (total <= bound || !(await deleteOldest(store, own.header))) return;
  }
}

/**
 * Forgets what was opened from a URL.
 * @param {Store} store
 * @param {string} url
 */
export const forget = async (store, url) => store.delete(await keyOf(url));

/** @param {Store} store */
async function readAll(store) {
  const keys = await store.keys(URLS);
  const found = await Promise.all(
    keys.map(async (name) => ({ name, about: await readAbout(store, `${URLS}/${name}`) })),
  );
  return found.flatMap(({ name, about }) => (about ? [{ key: `${URLS}/${name}`, about }] : []));
}

/**
 * Deletes the chunks of files that no URL has. A folder may have other things, which stay.
 * @param {Store} store
 */
async function sweep(store) {
  // A file that another page describes after this is not among the names.
  const names = (await store.keys('')).filter((name) => /^[0-9a-f]{64}$/.test(name));
  const wanted = new Set((await readAll(store)).map(({ about }) => about.header));
  for (const name of names) if (!wanted.has(name)) await store.delete(name).catch(() => {});
}

/**
 * Lists the files of a store.
 * @param {Store} store
 * @returns {Promise<import('../../types/cold.js').KeptModel[]>}
 */
async function listKept(store) {
  return Promise.all(
    (await readAll(store)).map(async ({ about }) => {
      const { url, header, places } = about;
      const chunks = await KeptChunks.open(store, header, new ChunkTable(places));
      const bytes = chunks.bytes + places.start;
      return { url, sha256: header, size: places.end, bytes, complete: bytes === places.end };
    }),
  );
}

/**
 * The store as wisp-engine/cold offers it.
 * @param {() => Promise<Store>} openStore
 * @param {() => Promise<boolean>} persist
 * @param {(source: string | URL) => string} hrefOf spells a URL as load does
 */
export const cacheOf = (openStore, persist, hrefOf) => ({
  list: () => orError(openStore().then(listKept)),
  /** @param {string | URL} [url] */
  delete: (url) =>
    orError(openStore().then((store) => deleteKept(store, url === undefined ? url : hrefOf(url)))),
  persist,
});

/**
 * @template T
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
const orError = (promise) =>
  promise.catch((cause) => {
    throw new WispError('io', `the store: ${cause.message}`, { cause });
  });

/**
 * @param {Store} store
 * @param {string} [url]
 */
async function deleteKept(store, url) {
  const before = await listKept(store);
  for (const { key, about } of await readAll(store)) {
    if (url === undefined || about.url === url) await store.delete(key);
  }
  await sweep(store);
  const left = new Set(await store.keys(''));
  const gone = new Map(before.map((each) => [each.sha256, each.bytes]));
  let freed = 0;
  for (const [name, bytes] of gone) if (!left.has(name)) freed += bytes;
  return freed;
}

/** Chunks that are in one entry. @typedef {{ name: string, first: number, end: number }} Run */

/** The chunks of a file that a store keeps. */
export class KeptChunks {
  /** Bytes that were read. */
  received = 0;
  /** Why no more can be stored. */
  full = '';
  #store;
  #header;
  #table;
  /** @type {Map<string, Run>} */
  #runs = new Map();
  #present = new RangeSet();
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @param {Store} store @param {string} header @param {ChunkTable} table */
  constructor(store, header, table) {
    this.#store = store;
    this.#header = header;
    this.#table = table;
  }

  /** @param {Store} store @param {string} header @param {ChunkTable} table */
  static async open(store, header, table) {
    const chunks = new KeptChunks(store, header, table);
    await chunks.refresh();
    return chunks;
  }

  /** The name of a lock for who fetches chunks for the store. */
  get lock() {
    return this.#store.kind === 'memory' ? undefined : `wisp-engine ${this.#header}`;
  }

  get kind() {
    return this.#store.kind;
  }

  get chunkBytes() {
    return this.#table.bytes;
  }

  /** Resolves when everything that was begun is done. */
  async settled() {
    for (let last; last !== this.#last;) await (last = this.#last);
  }

  /** Looks for what other pages and processes have stored or deleted. */
  refresh() {
    return this.#after(() => this.#refresh());
  }

  /**
   * Does one thing after the other: else a list of entries might lack one that is written meanwhile.
   * @template T
   * @param {() => Promise<T>} body
   * @returns {Promise<T>}
   */
  #after(body) {
    const done = this.#last.then(body);
    this.#last = done.catch(() => {});
    return done;
  }

  async #refresh() {
    const names = await this.#store.keys(this.#header).catch(() => undefined);
    if (!names) return; // what was there is perhaps still there
    this.#runs = new Map(
      names.flatMap((name) => {
        const [, first, count] = /^(\d+)-(\d+)$/.exec(name)?.map(Number) ?? [];
        const run = { name, first, end: first + count };
        return count > 0 && run.end <= this.#table.count ? [[name, run]] : [];
      }),
    );
    this.#index();
  }

  #index() {
    this.#present = new RangeSet();
    for (const { first, end } of this.#runs.values()) {
      this.#present.mark(this.#table.range(first, end));
    }
  }

  /** Bytes that are kept. */
  get bytes() {
    const { start, end } = this.#table;
    return end - start - lengthOf(this.missing([start, end]));
  }

  /** @param {Range} range @returns {Range[]} its parts that are not kept */
  missing(range) {
    return this.#present.missing(range);
  }

  /** @param {Range} range @returns {Run[]} the entries with bytes of it */
  runsOf([from, to]) {
    return [...this.#runs.values()].filter(({ first, end }) => {
      const [start, last] = this.#table.range(first, end);
      return start < to && from < last;
    });
  }

  /**
   * Reads an entry. Chunks that are not what the header says are kept no longer.
   * @param {Run} run
   * @param {(pieces: Piece[]) => void} take gets the chunks that are right, while the entry still counts as kept: so
   *   nobody fetches them again
   */
  async read(run, take) {
    const { first, end, name } = run;
    const [start, last] = this.#table.range(first, end);
    const bytes = await this.#store.get(`${this.#header}/${name}`).catch(() => undefined);
    this.received += bytes?.length ?? 0;
    const right = new RangeSet();
    for (let i = first; i < end && bytes?.length === last - start; i++) {
      const [from, to] = this.#table.range(i);
      if (await this.#table.isOf(i, bytes.subarray(from - start, to - start)))
        right.mark([from, to]);
    }
    const pieces = right.all.map(([from, to]) => ({
      offset: from,
      bytes: /** @type {Uint8Array} */ (bytes).slice(from - start, to - start),
    }));
    take(pieces);
    if (right.missing([start, last]).length === 0) return;
    this.#runs.delete(name);
    this.#index();
    // Another page may be about to write an entry that is empty.
    if (bytes && bytes.length > 0)
      void this.#after(() => this.#store.delete(`${this.#header}/${name}`)).catch(() => {});
    for (const { offset, bytes: chunks } of pieces) {
      void this.keep([offset, offset + chunks.length], chunks);
    }
  }

  /**
   * Keeps what is known of a URL's file, before any chunk. A file that is larger than the bound of all is not kept:
   * every other one would go for it.
   * @param {string} url
   * @param {string | null} state
   * @param {Uint8Array} [header] undefined if it is kept
   */
  describe(url, state, header) {
    const { places } = this.#table;
    const about = { url, state, header: this.#header, places, used: Date.now() };
    const bound = this.#store.bound();
    if (places.end > bound) this.full = `the file has ${places.end} bytes, more than WISP_CACHE_BYTES: ${bound}`; // prettier-ignore
    const keep = this.full
      ? () => makeRoom(this.#store, about, 0)
      : () => this.#withRoom(() => keepAbout(this.#store, about, header));
    return this.#after(keep).catch((error) => {
      this.full = error.message || error.name;
    });
  }

  /** Says that the file is in use until what it returns is called. */
  hold() {
    return this.#store.hold(this.#header).catch(() => () => {});
  }

  /**
   * If there is no room, deletes files that nobody uses, one after the other.
   * @template T
   * @param {() => Promise<T>} put
   */
  async #withRoom(put) {
    for (;;) {
      try {
        return await put();
      } catch (error) {
        const { name, code } = /** @type {any} */ (error).cause ?? error; // Node's writing gives the cause
        const isFull = name === 'QuotaExceededError' || code === 'ENOSPC' || code === 'EDQUOT';
        if (!isFull || !(await deleteOldest(this.#store, this.#header).catch(() => false)))
          throw error;
      }
    }
  }

  /**
   * Stores the whole chunks of a range that are not kept.
   * @param {Range} range
   * @param {Uint8Array} bytes of it
   * @returns {Promise<Range[]>} chunks that are not what the header says
   */
  keep(range, bytes) {
    return this.#after(() => this.#keep(range, bytes));
  }

  /** @param {Range} range @param {Uint8Array} bytes */
  async #keep([start, to], bytes) {
    const [first, end] = this.#table.within([start, to]);
    const part = (/** @type {Range} */ [from, last]) => bytes.subarray(from - start, last - start);
    /** @type {Range[]} */
    const wrong = [];
    let from = first;
    for (let i = first; i <= end; i++) {
      const chunk = this.#table.range(i);
      const isWanted = i < end && this.missing(chunk).length > 0;
      const isRight = isWanted && (await this.#table.isOf(i, part(chunk)));
      if (isWanted && !isRight) wrong.push(chunk);
      if (isRight && (i + 1 - from) * this.#table.bytes <= MOST_BYTES) continue;
      if (from < i) await this.#put(from, i, part(this.#table.range(from, i)));
      from = isRight ? i : i + 1;
    }
    return wrong;
  }

  /** @param {number} first @param {number} end @param {Uint8Array} bytes */
  async #put(first, end, bytes) {
    if (this.full) return;
    const name = `${first}-${end - first}`;
    try {
      await this.#withRoom(() => this.#store.put(`${this.#header}/${name}`, bytes));
    } catch (error) {
      const { name: kind, message } = /** @type {Error} */ (error);
      if (kind !== 'NoModificationAllowedError') this.full = message || kind; // else another page writes it
      return;
    }
    this.#runs.set(name, { name, first, end });
    this.#present.mark(this.#table.range(first, end));
  }
}
