// SPDX-License-Identifier: Apache-2.0
// The sections of an index's file (docs/formats.md) as values.
import { WispError } from './errors.js';
import { HEADER_BYTES, SECTIONS, malformed } from './index-header.js';

/**
 * A row besides its vector; null: it was removed. `metadata` is JSON, or ''.
 * @typedef {{ id: string, metadata: string } | null} Entry
 */

const encoder = new TextEncoder();

/**
 * Returns the bytes of each section.
 * @param {Uint8Array} data
 * @param {import('./index-header.js').Header} header
 * @param {(section: Uint8Array) => bigint} checksum
 */
export function readSections(data, { places, lengths, checksums }, checksum) {
  let end = HEADER_BYTES;
  return places.map((place, s) => {
    for (let at = end; at < place; at++) {
      if (data[at] !== 0) throw malformed(SECTIONS[s], 'the bytes before it are not 0');
    }
    end = place + lengths[s];
    const section = data.subarray(place, end);
    if (checksum(section) !== checksums[s]) {
      throw malformed(SECTIONS[s], 'the checksum is wrong: the bytes are damaged');
    }
    return section;
  });
}

/**
 * Reads the rows besides their vectors.
 * @param {number} n
 * @param {Uint8Array} deleted
 * @param {Uint8Array} lengths
 * @param {Uint8Array} texts
 */
export function readEntries(n, deleted, lengths, texts) {
  const entries = /** @type {Entry[]} */ ([]);
  const numbers = new DataView(lengths.buffer, lengths.byteOffset, lengths.length);
  let place = 0;
  if (n % 8 > 0 && deleted[n >> 3] >> (n & 7) !== 0) {
    throw malformed('deleted', 'marks a row after the last');
  }
  for (let row = 0; row < n; row++) {
    const removed = ((deleted[row >> 3] >> (row & 7)) & 1) === 1;
    const id = numbers.getUint32(8 * row, true);
    const metadata = numbers.getUint32(8 * row + 4, true);
    if (id + metadata > texts.length - place || (id === 0) !== removed || (removed && metadata)) {
      throw malformed('lengths', `row ${row} has ${id} and ${metadata} bytes of texts`);
    }
    const middle = place + id;
    place = middle + metadata;
    entries.push(
      removed
        ? null
        : {
            id: decode(texts.subarray(middle - id, middle), 'texts'),
            metadata: decode(texts.subarray(middle, place), 'texts'),
          },
    );
  }
  if (place !== texts.length) throw malformed('texts', 'bytes follow those of the last row');
  return entries;
}

/** Writes the rows besides their vectors. @param {readonly Entry[]} entries */
export function entrySections(entries) {
  const deleted = new Uint8Array(Math.ceil(entries.length / 8));
  const lengths = new Uint8Array(8 * entries.length);
  const numbers = new DataView(lengths.buffer);
  const texts = encoder.encode(
    entries.map((entry) => (entry ? entry.id + entry.metadata : '')).join(''),
  );
  entries.forEach((entry, row) => {
    if (!entry) deleted[row >> 3] |= 1 << (row & 7);
    else {
      numbers.setUint32(8 * row, utf8Length(entry.id), true);
      numbers.setUint32(8 * row + 4, utf8Length(entry.metadata), true);
    }
  });
  return { deleted, lengths, texts };
}

/** @param {string} text */
function utf8Length(text) {
  return encoder.encode(text).length;
}

/** @param {Uint8Array} bytes @param {string} field */
export function decode(bytes, field) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new WispError('format', `index: ${field}: not UTF-8`, { field, cause });
  }
}

/** Returns floats as the bytes of a file. @param {ArrayLike<number>} values */
export function floatBytes(values) {
  return new Uint8Array(Float32Array.from(values).buffer);
}

/** @param {Uint8Array} bytes of floats, at any place */
export function floatsOf(bytes) {
  return new Float32Array(bytes.slice().buffer);
}
