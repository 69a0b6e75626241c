// SPDX-License-Identifier: Apache-2.0
// Downloads a model into a browser's store, part by part.
import { WispError, onAbort, throwIfAborted } from '../base/errors.js';
import { Silence, checkEndless, limits } from '../files/silence.js';
import { checkArchitecture } from './hub-architecture.js';
import { HubError, ask, checkMagic, readAll, wrongHash, wrongLength } from './hub.js';
import { PART_BYTES, deleteKeys, keyOf } from './hub-store.js';
import { hasher } from '../base/sha256.js';
import { bodySize } from '../files/source.js';

/** @typedef {import('../../types/hub.js').HubOptions} HubOptions */
/** @typedef {import('./hub-store.js').Store} Store */

/**
 * A file to fetch: see About in hub-store.js.
 * @typedef {object} Wanted
 * @property {string} url
 * @property {string} state
 * @property {string} revision under which it is loaded
 * @property {number} [size]
 * @property {string} [sha256] in hexadecimal digits
 */

/**
 * Names the state of a file; undefined if the server says nothing about it.
 * @param {Headers} headers
 */
export function stateOf(headers) {
  return headers.get('etag') ?? headers.get('last-modified') ?? undefined;
}

/**
 * Downloads a model. Its received bytes stay in the store for the next time, unless they are wrong.
 * @param {Store} store
 * @param {Wanted} wanted
 * @param {HubOptions} options
 * @returns {Promise<Blob>}
 */
export async function download(store, wanted, options) {
  const parts = new Parts(store, wanted);
  try {
    // Without a state nobody knows whether the rest belongs to the stored parts.
    if (wanted.state !== '') await parts.resume();
    await transfer(parts, wanted, options);
    const { blob, hash } = await parts.end();
    const { url, sha256 } = wanted;
    if (sha256 && hash !== sha256) throw wrongHash(url, hash, sha256);
    return blob;
  } catch (error) {
    if (error instanceof WispError && error.code === 'format') await deleteKeys(store, parts.keys);
    throw error;
  }
}

/**
 * Reads the rest of a model, and goes on where a connection ends.
 * @param {Parts} parts
 * @param {Wanted} wanted
 * @param {HubOptions} options
 */
function transfer(parts, { url, size, state }, options) {
  const { signal, token } = options;
  /** @type {import('./hub.js').Transfer['read']} */
  async function read(report) {
    const { at } = parts;
    /** @type {RequestInit} */
    const init = { cache: 'no-store', headers: at > 0 ? { Range: `bytes=${at}-` } : {} };
    const stop = new AbortController();
    const forget = signal && onAbort(signal, () => stop.abort());
    const silence = new Silence(() => stop.abort());
    try {
      await readOne(report, init, silence, stop.signal);
    } catch (error) {
      throwIfAborted(signal);
      throw silence.isOver ? new HubError('io', `${url}: ${silence.shown()}`, 0, error) : error;
    } finally {
      silence.end();
      forget?.();
      stop.abort(); // frees a body that is not read
    }
  }
  /**
   * @param {(total: number | undefined) => void} report
   * @param {RequestInit} init
   * @param {Silence} silence
   * @param {AbortSignal} stopped
   */
  async function readOne(report, init, silence, stopped) {
    const onPause = (/** @type {number} */ pause) => silence.restart(pause);
    const response = await ask(url, init, { signal: stopped, token, onPause });
    const goesOn = response.status === 206;
    const whole = goesOn ? size : bodySize(response);
    if (size !== undefined && whole !== undefined && whole !== size) {
      throw wrongLength(url, whole, size);
    }
    if (goesOn && state !== 'hub' && stateOf(response.headers) !== state) {
      throw new WispError('format', `${url} has changed while it was fetched; load it again`);
    }
    if (!goesOn) parts.restart(); // the server sends all
    const before = parts.at;
    await parts.read(response, () => {
      silence.add(parts.at - before - silence.came);
      checkEndless(url, parts.at, size ?? whole, limits.endlessOnDisk);
      report(size ?? whole);
    });
  }
  /** @param {any} error */
  const isBroken = (error) =>
    error instanceof HubError ? error.status === 0 : error instanceof TypeError;
  const least = limits.silence * limits.slowest;
  const wanted = { url, size: size || undefined, at: () => parts.at, read, isBroken, least };
  return readAll(wanted, options);
}

/** The received bytes of a model, and the parts of them that are stored. */
class Parts {
  /** Bytes that have arrived. */
  at = 0;
  /** @type {Blob[]} */
  #blobs = [];
  #rest = new Uint8Array(PART_BYTES);
  #filled = 0;
  #hash = hasher();
  #store;
  #wanted;

  /** @param {Store} store @param {Wanted} wanted */
  constructor(store, wanted) {
    this.#store = store;
    this.#wanted = wanted;
  }

  get keys() {
    return this.#blobs.map((_, i) => keyOf(this.#wanted, i));
  }

  restart() {
    this.at = this.#filled = 0;
    this.#blobs = [];
    this.#hash = hasher();
  }

  /** Takes the full parts that an earlier download has stored. */
  async resume() {
    for (;;) {
      const part = await this.#store.get(keyOf(this.#wanted, this.#blobs.length));
      if (part?.size !== PART_BYTES) return;
      this.#hash.add(new Uint8Array(await part.arrayBuffer()));
      this.#blobs.push(part);
      this.at += part.size;
    }
  }

  /**
   * Reads a response's body to its end.
   * @param {Response} response
   * @param {() => void} onPart may throw
   */
  async read(response, onPart) {
    const { url, size } = this.#wanted;
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        if (this.at === 0) {
          checkMagic(value, url);
          checkArchitecture(value, url);
        }
        this.#hash.add(value);
        for (let used = 0; used < value.length;) {
          const some = value.subarray(used, used + PART_BYTES - this.#filled);
          this.#rest.set(some, this.#filled);
          this.#filled += some.length;
          this.at += some.length;
          used += some.length;
          if (this.#filled === PART_BYTES) await this.#flush();
        }
        if (size !== undefined && this.at > size) throw wrongLength(url, this.at, size);
        onPart();
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  /** Stores a part. If there is no room, it stays in memory. */
  async #flush() {
    const key = keyOf(this.#wanted, this.#blobs.length);
    const blob = new Blob([this.#rest.subarray(0, this.#filled)]);
    this.#filled = 0;
    // The browser reads back a Blob that is on the disk.
    const stored = this.#store.put(key, blob).then(() => this.#store.get(key));
    this.#blobs.push((await stored.catch(() => undefined)) ?? blob);
  }

  async end() {
    if (this.#filled > 0) await this.#flush();
    const hash = atob(this.#hash.end().replace(/^sha256-/, ''));
    return {
      blob: new Blob(this.#blobs),
      hash: Array.from(hash, (digit) => digit.charCodeAt(0).toString(16).padStart(2, '0')).join(''),
    };
  }
}
