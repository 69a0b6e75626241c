// SPDX-License-Identifier: Apache-2.0
// The bytes of an index's file (docs/formats.md), from and to what an index holds. The work is divided: see
// platform/slices.js.
import { takeMemory } from '../base/errors.js';
import { HEADER_BYTES, malformed, writeHeader } from './index-header.js';
import { roundUp } from './index-search.js';
import {
  STEP_ROWS,
  decode,
  floatBytes,
  floatsOf,
  readEntries,
  readSections,
  writeEntries,
} from './index-sections.js';

/**
 * @template T
 * @typedef {import('../platform/slices.js').Steps<T>} Steps
 */

/**
 * The contents of a file besides the vectors, which are in the memory of kernels.
 * @typedef {object} Contents
 * @property {string} model
 * @property {Float32Array | undefined} fingerprint
 * @property {import('./index-sections.js').Entry[]} entries
 * @property {number[]} scales
 * @property {Map<string, number>} rows the row of each id
 */

const encoder = new TextEncoder();

/**
 * Returns the bytes of an index. Rows keep their places and vectors until it has ended.
 * @param {Omit<Contents, 'rows'> & { kind: 'int8' | 'f32', dimensions: number, rowBytes: number, size: number }} contents
 *   `size`: the rows that are not deleted
 * @param {import('./index-search.js').Kernels} kernels
 * @returns {Steps<ArrayBuffer>}
 */
export function* writeIndex(contents, kernels) {
  const { kind, dimensions, rowBytes, size, model, fingerprint, entries, scales } = contents;
  const n = entries.length;
  const { deleted, lengths, texts } = yield* writeEntries(entries);
  const textBytes = texts.reduce((sum, { length }) => sum + length, 0);
  const name = encoder.encode(model);
  const known = [name, floatBytes(fingerprint ?? []), floatBytes(scales), deleted, lengths];
  const sizes = [...known.map(({ length }) => length), textBytes, n * rowBytes];
  let end = HEADER_BYTES;
  const places = sizes.map((bytes) => {
    const place = roundUp(end, 64);
    end = place + bytes;
    return place;
  });
  const bytes = takeMemory('the bytes of an index', () => new Uint8Array(end));
  const view = writeHeader(bytes, {
    kind,
    dimensions,
    rowBytes,
    rows: n,
    deleted: n - size,
    textBytes,
    nameBytes: name.length,
    hasModel: fingerprint !== undefined,
  });
  known.forEach((section, s) => bytes.set(section, places[s]));
  const section = (/** @type {number} */ s) => bytes.subarray(places[s], places[s] + sizes[s]);
  let place = places[known.length];
  for (const part of texts) {
    yield;
    bytes.set(part, place);
    place += part.length;
  }
  for (let s = 0; s < sizes.length; s++) {
    const isVectors = s === sizes.length - 1;
    const sum = isVectors
      ? kernels.checksum(sizes[s], (first, count) => {
          bytes.set(kernels.bytes(kernels.vectors + first, count), places[s] + first);
          return kernels.vectors + first;
        })
      : kernels.checksumOf(section(s));
    view.setBigUint64(64 + 8 * s, yield* sum, true);
  }
  view.setBigUint64(120, yield* kernels.checksumOf(bytes.subarray(0, 120)), true);
  return bytes.buffer;
}

/**
 * Reads such bytes, and puts the vectors into the memory of kernels.
 * @param {Uint8Array} data
 * @param {import('./index-header.js').Header} header
 * @param {number} rowBytes
 * @param {import('./index-search.js').Kernels} kernels
 * @returns {Steps<Contents>}
 */
export function* readIndex(data, header, rowBytes, kernels) {
  const { rows: n, kind, dimensions } = header;
  if ((yield* kernels.checksumOf(data.slice(0, 120))) !== header.checksum) {
    throw malformed('header', 'the checksum is wrong: the bytes are damaged');
  }
  const sections = yield* readSections(data, header, kernels);
  const [name, fingerprintBytes, scaleBytes, deleted, lengths, texts] = sections;
  const model = decode(name, 'name');
  if (model.includes('\0')) throw malformed('name', 'has a zero');
  const fingerprint = header.hasModel ? floatsOf(fingerprintBytes) : undefined;
  if (fingerprint?.some((value) => !Number.isFinite(value))) {
    throw malformed('fingerprint', 'a value is not finite');
  }
  const scales = [];
  for (const [row, scale] of floatsOf(scaleBytes).entries()) {
    if (row % STEP_ROWS === 0) yield;
    if (!Number.isFinite(scale) || scale < 0) {
      throw malformed('scales', `that of row ${row} is negative or not finite`);
    }
    scales.push(scale);
  }
  yield* checkVectors(n, dimensions, rowBytes, kind, kernels);
  const { entries, rows } = yield* readEntries(n, deleted, lengths, texts);
  if (n - rows.size !== header.deleted) {
    throw malformed('deleted', `${n - rows.size} rows are marked, not ${header.deleted}`);
  }
  return { model, fingerprint, entries, scales, rows };
}

/**
 * Rows end with zeros, and floats are finite.
 * @param {number} n
 * @param {number} dimensions
 * @param {number} rowBytes
 * @param {'int8' | 'f32'} kind
 * @param {import('./index-search.js').Kernels} kernels
 * @returns {Steps<void>}
 */
function* checkVectors(n, dimensions, rowBytes, kind, { module, vectors }) {
  const values = dimensions * (kind === 'f32' ? 4 : 1);
  for (let row = 0; row < n; row++) {
    if ((row * rowBytes) % 65536 < rowBytes) yield;
    const at = vectors + row * rowBytes;
    // The memory may have grown since the last row.
    const { buffer } = module.memory;
    const padding = new Uint8Array(buffer, at + values, rowBytes - values);
    if (padding.some((byte) => byte !== 0)) {
      throw malformed('vectors', `row ${row} does not end with zeros`);
    }
    if (kind === 'f32' && !new Float32Array(buffer, at, dimensions).every(Number.isFinite)) {
      throw malformed('vectors', `that of row ${row} is not finite`);
    }
  }
}
