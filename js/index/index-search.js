// SPDX-License-Identifier: Apache-2.0
// Computes for searches of an index: products in WebAssembly, and quantised numbers.
import { takeMemory } from '../base/errors.js';
import { KERNELS } from './index-kernels.js';

/** Rows whose products are computed at once, and the bytes that these may have unless one row has more. */
export const GROUP_ROWS = 1024;
export const GROUP_BYTES = 1 << 20;

/** Bytes whose checksum is computed at once: a multiple of 32. */
const PART_BYTES = 1 << 16;

/** Bytes of the checksum of some parts. */
const SUM_BYTES = 32;

/** @type {WebAssembly.Module | undefined} */
let compiled;

/** @param {number} value @param {number} multiple */
export const roundUp = (value, multiple) => Math.ceil(value / multiple) * multiple;

/** Rounds to a whole number, ties to even, as C does: magnitudes must be below 2^22. */
export const roundEven = (/** @type {number} */ x) =>
  Math.fround(Math.fround(x) + 12582912) - 12582912;

/** The largest float. */
const MOST_SCORE = 2 ** 128 - 2 ** 104;

/**
 * Returns a dot product as a float that JSON can hold. Sums of huge values may be infinite, or of infinities of both
 * signs, which are not numbers.
 * @param {number} sum
 */
export const finiteScore = (sum) =>
  Number.isNaN(sum) ? -MOST_SCORE : Math.fround(Math.max(-MOST_SCORE, Math.min(sum, MOST_SCORE)));

/** The memory of a module: a query, sums of a group of rows, a part of bytes, and the vectors behind them. */
export class Kernels {
  /** @param {number} width the bytes of a query */
  constructor(width) {
    const module = (compiled ??= new WebAssembly.Module(
      Uint8Array.from(atob(KERNELS), (c) => c.charCodeAt(0)),
    ));
    const { exports } = takeMemory('an index', () => new WebAssembly.Instance(module));
    this.module = /** @type {any} */ (exports);
    this.query = roundUp(this.module.__heap_base.value, 64);
    this.sums = this.query + roundUp(width, 64);
    this.sum = this.sums + 4 * GROUP_ROWS;
    this.part = this.sum + 2 * SUM_BYTES;
    this.vectors = this.part + PART_BYTES;
    this.reserve(0);
  }

  /** Makes room for so many bytes of vectors. @param {number} bytes */
  reserve(bytes) {
    const { memory } = this.module;
    const missing = this.vectors + bytes - memory.buffer.byteLength;
    if (missing > 0) takeMemory('vectors', () => memory.grow(Math.ceil(missing / 65536)));
  }

  /** @param {number} at @param {number} length */
  bytes(at, length) {
    return new Uint8Array(this.module.memory.buffer, at, length);
  }

  /**
   * Computes a checksum of `length` bytes.
   * @param {number} length
   * @param {(first: number, count: number) => number} put brings `count` of the bytes to the memory, and returns where
   *   they are there
   * @returns {import('../platform/slices.js').Steps<bigint>}
   */
  *checksum(length, put) {
    const { module, sum } = this;
    module.checksum_begin(sum, length);
    for (let first = 0; first < length; first += PART_BYTES) {
      // Another checksum may be computed while this one pauses.
      const before = this.bytes(sum, SUM_BYTES).slice();
      if (first > 0) yield;
      const count = Math.min(PART_BYTES, length - first);
      const at = put(first, count);
      this.bytes(sum, SUM_BYTES).set(before);
      module.checksum_add(sum, at, count);
    }
    return BigInt.asUintN(64, module.checksum_end(sum));
  }

  /**
   * Computes the checksum of bytes that are not in the memory.
   * @param {Uint8Array} bytes
   */
  checksumOf(bytes) {
    return this.checksum(bytes.length, (first, count) => {
      this.bytes(this.part, count).set(bytes.subarray(first, first + count));
      return this.part;
    });
  }
}

/**
 * Returns the factor by which the largest magnitude becomes `steps`, and its inverse, as floats; 0
 * if all magnitudes are below `least`.
 * @param {ArrayLike<number>} values
 * @param {number} steps
 * @param {number} least
 */
export function quantiser(values, steps, least) {
  let most = 0;
  for (let i = 0; i < values.length; i++) most = Math.max(most, Math.abs(Math.fround(values[i])));
  if (most < least) return { factor: 0, scale: 0 };
  return { factor: Math.fround(steps / most), scale: Math.fround(most / steps) };
}
