// SPDX-License-Identifier: Apache-2.0
// Models in memory that Node's threads share.
import { readChecked, sharedBytes, sharedPart } from './source.js';

/**
 * Reads a stream into memory that workers can share.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {number | undefined} total
 * @param {string} name
 * @param {import('../../types/internal.js').Reading} reading
 * @returns {Promise<import('../../types/protocol.js').SharedBytes>}
 */
export async function readStream(stream, total, name, reading) {
  const parts = new Parts(total);
  await readChecked(stream, total, name, reading, (part) => parts.add(part));
  return sharedPart(parts.join());
}

/** Bytes that arrive part by part: put in place if their number is known, else joined. */
class Parts {
  size = 0;
  #whole;
  /** How much of the whole is in place; `size` grows if more arrives than was announced. */
  #placed = 0;
  /** @type {Uint8Array[]} */
  #rest = [];

  /** @param {number} [total] */
  constructor(total = 0) {
    this.#whole = sharedBytes(total);
  }

  /** @param {Uint8Array} part */
  add(part) {
    this.size += part.length;
    if (this.size > this.#whole.length) {
      this.#rest.push(part.slice());
    } else {
      this.#whole.set(part, this.#placed);
      this.#placed = this.size;
    }
  }

  join() {
    if (this.size === this.#whole.length) return this.#whole;
    const joined = sharedBytes(this.size);
    let at = 0;
    for (const part of [this.#whole.subarray(0, this.#placed), ...this.#rest]) {
      joined.set(part, at);
      at += part.length;
    }
    return joined;
  }
}

/**
 * Returns the bytes of a view in shared memory: the same bytes if they are shared, else a copy.
 * @param {Uint8Array} view
 */
export function share(view) {
  if (view.buffer instanceof SharedArrayBuffer) return sharedPart(view);
  const copy = sharedBytes(view.length);
  copy.set(view);
  return sharedPart(copy);
}
