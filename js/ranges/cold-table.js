// SPDX-License-Identifier: Apache-2.0
// The digests of a file's chunks (docs/formats.md), read from its header.
import { WispError } from '../base/errors.js';
import { hasher } from '../base/sha256.js';

/** @typedef {import('./cold-ranges.js').Range} Range */

/** The bytes of GGUF's types of metadata by their numbers; 8 and 9, strings and arrays, have a length of their own. */
const TYPE_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, NaN, NaN, 8, 8, 8];
const STRING = 8;
const ARRAY = 9;
const DIGEST_BYTES = 32;

/** Where the chunks of a file lie. */
export class ChunkTable {
  #digests;

  /**
   * @param {object} places
   * @param {number} places.start of the first chunk, which is the end of the header
   * @param {number} places.cold the first byte of the cold part, in which chunks are counted again
   * @param {number} places.end of the file
   * @param {number} places.bytes of a chunk
   * @param {Uint8Array} [digests]
   */
  constructor({ start, cold, end, bytes }, digests = new Uint8Array()) {
    this.start = start;
    this.cold = cold;
    this.end = end;
    this.bytes = bytes;
    this.hot = Math.ceil((cold - start) / bytes);
    this.count = this.hot + Math.ceil((end - cold) / bytes);
    this.#digests = digests;
  }

  /**
   * Returns the bytes of the file that chunks consist of.
   * @param {number} first
   * @param {number} [end] the chunk behind the last
   * @returns {Range}
   */
  range(first, end = first + 1) {
    return [this.#startOf(first), this.#startOf(end)];
  }

  /** @param {number} i from 0 to count */
  #startOf(i) {
    if (i < this.hot) return this.start + i * this.bytes;
    return Math.min(this.cold + (i - this.hot) * this.bytes, this.end);
  }

  /**
   * Returns the first and the end of the chunks that are wholly within a range.
   * @param {Range} range
   * @returns {Range}
   */
  within([from, to]) {
    const at = (/** @type {number} */ byte) =>
      byte < this.cold
        ? Math.floor((byte - this.start) / this.bytes)
        : this.hot + Math.floor((byte - this.cold) / this.bytes);
    const begin = Math.max(from, this.start);
    const first = at(begin) + (this.#startOf(at(begin)) < begin ? 1 : 0);
    const end = to >= this.end ? this.count : at(Math.max(to, this.start));
    return [first, Math.max(first, end)];
  }

  /**
   * Whether bytes are those of chunk i.
   * @param {number} i
   * @param {Uint8Array} bytes
   */
  async isOf(i, bytes) {
    const own = this.#digests.subarray(i * DIGEST_BYTES, (i + 1) * DIGEST_BYTES);
    return hex(own) === (await sha256(bytes));
  }

  /**
   * Compares all bytes of a file with the digests. The engine compares only what a model by range opens from, and what
   * comes later.
   * @param {Uint8Array} bytes
   * @param {string} name of the file
   */
  async check(bytes, name) {
    for (let i = 0; i < this.count; i++) {
      const [from, to] = this.range(i);
      if (await this.isOf(i, bytes.subarray(from, to))) continue;
      const text = `${name}: bytes ${from} to ${to - 1} are not what the file's table says: the SHA-256 of chunk ${i} differs`;
      throw new WispError('format', text, { field: 'wisp.chunks.sha256' });
    }
  }

  /** The argument of `new ChunkTable`. */
  get places() {
    const { start, cold, end, bytes } = this;
    return { start, cold, end, bytes };
  }
}

/**
 * Makes the error of a file whose header is not the one that the caller named by its SHA-256.
 * @param {string} name of the file
 * @param {string} wanted
 * @param {string} [found] undefined if the file has no digests
 */
export function otherHeader(name, wanted, found) {
  const what = found
    ? `the header's SHA-256 is ${found}, not ${wanted}`
    : 'the file has no digests, and so its header says nothing of the other bytes';
  const code = found ? 'format' : 'unsupported';
  return new WispError(code, `${name}: ${what}`, { field: 'sha256' });
}

/** @param {Uint8Array} bytes */
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/**
 * @param {Uint8Array} bytes that are not shared
 * @returns {Promise<string>} in hexadecimal digits
 */
export async function sha256(bytes) {
  const { subtle } = globalThis.crypto ?? {};
  if (subtle)
    return hex(new Uint8Array(await subtle.digest('SHA-256', /** @type {any} */ (bytes))));
  const hash = hasher(); // a page that is not secure
  hash.add(bytes);
  const digest = atob(hash.end().replace(/^sha256-/, ''));
  return hex(Uint8Array.from(digest, (digit) => digit.charCodeAt(0)));
}

/**
 * Reads the table of a file whose header the engine has accepted. Undefined if it has none.
 * @param {Uint8Array} bytes the beginning of the file, with its header
 * @param {number} cold
 * @param {number} size of the file
 * @returns {ChunkTable | undefined}
 */
export function readTable(bytes, cold, size) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 8; // behind magic and version
  const u32 = () => view.getUint32((at += 4) - 4, true);
  const u64 = () => Number(view.getBigUint64((at += 8) - 8, true));
  const string = () => {
    const length = u64();
    return bytes.subarray(at, (at += length));
  };
  const text = () => new TextDecoder().decode(string());
  /** @param {number} type @param {number} count */
  const skip = (type, count) => {
    if (type === STRING) for (let i = 0; i < count; i++) string();
    else at += count * TYPE_BYTES[type];
  };
  try {
    const tensors = u64();
    let alignment = 32;
    let chunk = 0;
    /** @type {Uint8Array | undefined} */
    let digests;
    for (let left = u64(); left > 0; left--) {
      const key = text();
      const type = u32();
      if (type === ARRAY) {
        const element = u32();
        const count = u64();
        if (key === 'wisp.chunks.sha256') digests = bytes.slice(at, at + count);
        skip(element, count);
      } else {
        if (key === 'general.alignment') alignment = view.getUint32(at, true);
        if (key === 'wisp.chunks.bytes') chunk = view.getUint32(at, true);
        skip(type, 1);
      }
    }
    let first = 0;
    for (let i = 0; i < tensors; i++) {
      string();
      const dimensions = u32();
      at += 8 * dimensions + 4; // and the type
      const offset = u64();
      if (i === 0) first = offset;
    }
    const start = Math.ceil(at / alignment) * alignment + first;
    if (!digests || !(chunk > 0) || !(start <= bytes.length)) return undefined;
    const table = new ChunkTable({ start, cold, end: size, bytes: chunk }, digests);
    return digests.length === table.count * DIGEST_BYTES ? table : undefined;
  } catch (error) {
    if (error instanceof RangeError) return undefined; // the header does not end here
    throw error;
  }
}
