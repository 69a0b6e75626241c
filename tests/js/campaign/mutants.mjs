// SPDX-License-Identifier: Apache-2.0
import { readFields } from './gguf-fields.mjs';

/** @typedef {import('./random.mjs').Random} Random */
/** @typedef {{ bytes: Uint8Array, fields: import('./gguf-fields.mjs').Field[],
 *   headerBytes: number }} Original a whole model */

/**
 * @param {Uint8Array} bytes of a model
 * @returns {Original}
 */
export const original = (bytes) => ({ bytes, ...readFields(bytes) });

const EXTREMES = [
  ...[0n, 1n, 2n, 3n, 7n, 255n, 256n, 0x7fffn, 0xffffn, 0x10000n, 1n << 20n, (1n << 20n) + 1n],
  ...[31n, 32n, 33n, 61n, 62n, 63n].flatMap((bit) => [(1n << bit) - 1n, 1n << bit]),
  ...[(1n << 64n) - 1n, (1n << 64n) - 31n, 0x7f800000n, 0x7fc00000n, 0xff800000n, 0x80000000n],
];

/** Bits of floats: NaN, both infinities, both signs of the largest, tiny and 0. */
const FLOATS = [0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0x00000001, 0x80000000];

/**
 * Ways to change a model. Each changes `copy`, or returns other bytes.
 * @type {Record<string, (random: Random, copy: Uint8Array, from: Original, others: Original[]) =>
 *   Uint8Array | void>}
 */
const WAYS = {
  flipBits(random, copy, { headerBytes }) {
    const end = random.oneIn(3) ? copy.length : headerBytes;
    for (let n = random.range(1, 8); n > 0; n--) copy[random.below(end)] ^= 1 << random.below(8);
  },

  overwriteBytes(random, copy, { headerBytes }) {
    const start = random.below(random.oneIn(3) ? copy.length : headerBytes);
    const end = Math.min(copy.length, start + random.range(1, 64));
    const fill = random.pick([0, 255, -1]);
    for (let at = start; at < end; at++) copy[at] = fill < 0 ? random.bits() : fill;
  },

  truncate(random, copy, { headerBytes }) {
    return copy.slice(0, random.below(random.oneIn(2) ? copy.length : headerBytes));
  },

  append(random, copy) {
    const longer = new Uint8Array(copy.length + random.range(1, 4096));
    longer.set(copy);
    return longer.fill(random.bits(), copy.length);
  },

  /** Bytes of another place, or of another model, replace some of these or come between them. */
  splice(random, copy, { headerBytes }, others) {
    const donor = random.pick(others);
    const from = random.below(random.oneIn(2) ? donor.bytes.length : donor.headerBytes);
    const part = donor.bytes.subarray(from, from + random.range(1, 2048));
    const at = random.below(random.oneIn(2) ? copy.length : headerBytes);
    const after = copy.subarray(Math.min(copy.length, at + random.pick([0, part.length])));
    const spliced = new Uint8Array(at + part.length + after.length);
    spliced.set(copy.subarray(0, at));
    spliced.set(part, at);
    spliced.set(after, at + part.length);
    return spliced;
  },

  remove(random, copy, { headerBytes }) {
    const at = random.below(random.oneIn(2) ? copy.length : headerBytes);
    copy.copyWithin(at, at + random.range(1, 64));
  },

  changeFields(random, copy, { fields }) {
    const view = new DataView(copy.buffer);
    for (let n = random.range(1, 3); n > 0; n--) {
      const { at, bytes } = random.pick(fields);
      let value = 0n;
      for (let i = bytes; i-- > 0;) value = (value << 8n) | BigInt(copy[at + i]);
      const near = [value + 1n, value - 1n, 2n * value, value / 2n, value * value, -value];
      value = random.oneIn(2) ? random.pick(near) : random.pick(EXTREMES);
      for (let i = 0; i < bytes; i++)
        view.setUint8(at + i, Number((value >> BigInt(8 * i)) & 255n));
    }
  },

  /** One field's number takes the place of another's. */
  swapFields(random, copy, { fields, bytes }) {
    const to = random.pick(fields);
    const from = random.pick(fields.filter((field) => field.bytes === to.bytes));
    copy.set(bytes.subarray(from.at, from.at + from.bytes), to.at);
  },

  changeWeights(random, copy, { headerBytes }) {
    const view = new DataView(copy.buffer);
    const floats = (copy.length - headerBytes) >> 2;
    const start = (headerBytes + 3) & ~3;
    for (let n = random.pick([1, 2, 8, 500]); n > 0; n--) {
      const at = start + 4 * random.below(floats - 1);
      view.setUint32(at, random.pick(FLOATS), true);
    }
  },
};

/** Names of the ways. */
export const WAY_NAMES = Object.keys(WAYS);

/**
 * Makes a damaged model of one of the originals.
 * @param {Random} random
 * @param {Original[]} originals
 * @returns {{ way: string, bytes: Uint8Array }}
 */
export function makeMutant(random, originals) {
  const way = random.pick(WAY_NAMES);
  const from = random.pick(originals);
  const copy = from.bytes.slice();
  return { way, bytes: WAYS[way](random, copy, from, originals) ?? copy };
}
