// SPDX-License-Identifier: Apache-2.0
// The sections of an index's file (docs/formats.md) as values. The work is divided: see platform/slices.js.
import { WispError } from '../base/errors.js';
import { HEADER_BYTES, SECTIONS, malformed } from './index-header.js';

/**
 * A row besides its vector; null: it was removed. `metadata` is JSON, or ''.
 * @typedef {{ id: string, metadata: string } | null} Entry
 */

/**
 * @template T
 * @typedef {import('../platform/slices.js').Steps<T>} Steps
 */

/** Rows that are looked at between two places to pause. */
export const STEP_ROWS = 64;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Returns the bytes of each section but the last, the vectors, which come to the memory of the kernels. The caller may
 * change its bytes meanwhile: what is checked and returned is a copy.
 * @param {Uint8Array} data
 * @param {import('./index-header.js').Header} header
 * @param {import('./index-search.js').Kernels} kernels
 * @returns {Steps<Uint8Array[]>}
 */
export function* readSections(data, { places, lengths, checksums }, kernels) {
  const sections = [];
  let end = HEADER_BYTES;
  kernels.reserve(lengths[lengths.length - 1]);
  for (const [s, place] of places.entries()) {
    if (data.subarray(end, place).some((byte) => byte !== 0)) {
      throw malformed(SECTIONS[s], 'the bytes before it are not 0');
    }
    end = place + lengths[s];
    const isVectors = s === places.length - 1;
    const section = isVectors ? undefined : new Uint8Array(lengths[s]);
    const sum = yield* kernels.checksum(lengths[s], (first, count) => {
      const bytes = data.subarray(place + first, place + first + count);
      section?.set(bytes, first);
      const at = isVectors ? kernels.vectors + first : kernels.part;
      kernels.bytes(at, count).set(bytes);
      return at;
    });
    if (sum !== checksums[s]) {
      throw malformed(SECTIONS[s], 'the checksum is wrong: the bytes are damaged');
    }
    if (section) sections.push(section);
  }
  return sections;
}

/**
 * Reads the rows besides their vectors.
 * @param {number} n
 * @param {Uint8Array} deleted
 * @param {Uint8Array} lengths
 * @param {Uint8Array} texts
 * @returns {Steps<{ entries: Entry[], rows: Map<string, number> }>}
 */
export function* readEntries(n, deleted, lengths, texts) {
  const entries = /** @type {Entry[]} */ ([]);
  const rows = new Map();
  const numbers = new DataView(lengths.buffer, lengths.byteOffset, lengths.length);
  let place = 0;
  if (n % 8 > 0 && deleted[n >> 3] >> (n & 7) !== 0) {
    throw malformed('deleted', 'marks a row after the last');
  }
  for (let row = 0; row < n; row++) {
    if (row % STEP_ROWS === 0) yield;
    const removed = ((deleted[row >> 3] >> (row & 7)) & 1) === 1;
    const id = numbers.getUint32(8 * row, true);
    const metadata = numbers.getUint32(8 * row + 4, true);
    if (id + metadata > texts.length - place || (id === 0) !== removed || (removed && metadata)) {
      throw malformed('lengths', `row ${row} has ${id} and ${metadata} bytes of texts`);
    }
    const middle = place + id;
    place = middle + metadata;
    if (removed) {
      entries.push(null);
      continue;
    }
    const entry = {
      id: decode(texts.subarray(middle - id, middle), 'texts'),
      metadata: decode(texts.subarray(middle, place), 'texts'),
    };
    if (rows.has(entry.id)) throw malformed('ids', `that of row ${row} appears twice`);
    rows.set(entry.id, row);
    entries.push(entry);
  }
  if (place !== texts.length) throw malformed('texts', 'bytes follow those of the last row');
  return { entries, rows };
}

/**
 * Returns the sections `deleted` and `lengths`, and `texts` in parts.
 * @param {readonly Entry[]} entries
 * @returns {Steps<{ deleted: Uint8Array, lengths: Uint8Array, texts: Uint8Array[] }>}
 */
export function* writeEntries(entries) {
  const deleted = new Uint8Array(Math.ceil(entries.length / 8));
  const lengths = new Uint8Array(8 * entries.length);
  const numbers = new DataView(lengths.buffer);
  const texts = [];
  for (let first = 0; first < entries.length; first += STEP_ROWS) {
    yield;
    const some = entries.slice(first, first + STEP_ROWS);
    const text = some.map((entry) => (entry ? entry.id + entry.metadata : '')).join('');
    const bytes = encoder.encode(text);
    texts.push(bytes);
    // If each character is a byte, nobody has to look at the texts again.
    const lengthOf = bytes.length === text.length ? lengthInAscii : lengthInUtf8;
    for (const [i, entry] of some.entries()) {
      const row = first + i;
      if (!entry) {
        deleted[row >> 3] |= 1 << (row & 7);
        continue;
      }
      numbers.setUint32(8 * row, lengthOf(entry.id), true);
      numbers.setUint32(8 * row + 4, lengthOf(entry.metadata), true);
    }
  }
  return { deleted, lengths, texts };
}

/** @param {string} text */
const lengthInAscii = (text) => text.length;

/** @param {string} text */
const lengthInUtf8 = (text) => encoder.encode(text).length;

/** @param {Uint8Array} bytes @param {string} field */
export function decode(bytes, field) {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new WispError('format', `index: ${field}: not UTF-8`, { field, cause });
  }
}

/** Returns floats as the bytes of a file. @param {ArrayLike<number>} values */
export function floatBytes(values) {
  return new Uint8Array(new Float32Array(values).buffer);
}

/** @param {Uint8Array} bytes of floats, at any place */
export function floatsOf(bytes) {
  return new Float32Array(bytes.slice().buffer);
}
