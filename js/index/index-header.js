// SPDX-License-Identifier: Apache-2.0
// The header of an index's file, and the places of its sections (docs/formats.md).
import { WispError } from '../base/errors.js';
import { roundUp } from './index-search.js';

export const MAGIC = [...'WISPINDX'].map((c) => c.charCodeAt(0));
export const VERSION = 1;
export const HEADER_BYTES = 128;
export const SECTIONS = ['name', 'fingerprint', 'scales', 'deleted', 'lengths', 'texts', 'vectors'];
export const KINDS = /** @type {const} */ (['int8', 'f32']);
export const MOST_DIMENSIONS = 65536;
export const MOST_NAME = 4096;

/** @param {string} field @param {string} what */
export const malformed = (field, what) =>
  new WispError('format', `index: ${field}: ${what}`, { field });

/**
 * Returns what tells the bytes of one index from those of another: the header, which has checksums of all sections.
 * @param {ArrayBuffer | Uint8Array} bytes
 */
export const markOf = (bytes) => new Uint8Array(bytes.slice(0, HEADER_BYTES)).join();

/**
 * Refuses to replace an index that has changed since it was read.
 * @param {unknown} place
 * @param {string} field of errors
 * @param {string} before the mark of what was read
 * @param {string} now that of what is there
 */
export function refuseChange(place, field, before, now) {
  if (before === now || now === '') return;
  const what = 'has been changed by another program or tab since this index was read from it';
  throw new WispError('io', `${place}: ${what}: load it again and repeat the changes`, { field });
}

/**
 * @typedef {object} Header
 * @property {'int8' | 'f32'} kind
 * @property {number} dimensions
 * @property {number} rows
 * @property {number} deleted
 * @property {boolean} hasModel
 * @property {number[]} places where the sections begin
 * @property {number[]} lengths
 * @property {bigint[]} checksums
 * @property {bigint} checksum of the header
 */

/** @param {Uint8Array} data @returns {Header} */
export function readHeader(data) {
  if (data.length < HEADER_BYTES) throw malformed('header', 'it is too short to be an index');
  if (MAGIC.some((c, i) => data[i] !== c)) throw malformed('header', 'it is not an index');
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const version = view.getUint32(8, true);
  if (version !== VERSION) {
    const what = `index: version: ${version}, and this build reads ${VERSION}`;
    throw new WispError('unsupported', what, { field: 'version' });
  }
  const kind = KINDS[view.getUint32(12, true)];
  const dimensions = view.getUint32(24, true);
  const rowBytes = view.getUint32(28, true);
  const [rows, deleted, textBytes] = [32, 40, 48].map((at) => Number(view.getBigUint64(at, true)));
  const nameBytes = view.getUint32(56, true);
  const model = view.getUint32(60, true);
  if (!kind) throw malformed('kind', 'there is no such kind');
  if (model > 1) throw malformed('model', `${model} is neither 0 nor 1`);
  if (dimensions < 1 || dimensions > MOST_DIMENSIONS) {
    throw malformed('dimensions', `${dimensions}; 1 to ${MOST_DIMENSIONS} are possible`);
  }
  if (rowBytes !== roundUp(dimensions * (kind === 'f32' ? 4 : 1), 16)) {
    throw malformed('row_bytes', `${rowBytes}, which do not fit ${dimensions} values`);
  }
  if (nameBytes > MOST_NAME) throw malformed('name', `${nameBytes} bytes`);
  if (deleted > rows) throw malformed('deleted', `${deleted}, but there are ${rows} rows`);
  // Numbers above 2^53 lose digits here, but are far above any size.
  const lengths = [
    nameBytes,
    model * 4 * dimensions,
    kind === 'int8' ? 4 * rows : 0,
    Math.ceil(rows / 8),
    8 * rows,
    textBytes,
    rows * rowBytes,
  ];
  const places = [];
  let at = HEADER_BYTES;
  for (const length of lengths) {
    places.push((at = roundUp(at, 64)));
    at += length;
  }
  if (at !== data.length || view.getBigUint64(16, true) !== BigInt(data.length)) {
    throw malformed(
      'size',
      `${data.length} bytes, but the header says otherwise: they are damaged`,
    );
  }
  return {
    kind,
    dimensions,
    rows,
    deleted,
    hasModel: model === 1,
    places,
    lengths,
    checksums: lengths.map((_, s) => view.getBigUint64(64 + 8 * s, true)),
    checksum: view.getBigUint64(120, true),
  };
}

/**
 * Writes the header but for its checksums, and returns the view that they are written by.
 * @param {Uint8Array} bytes of the whole file
 * @param {object} about
 * @param {'int8' | 'f32'} about.kind
 * @param {number} about.dimensions
 * @param {number} about.rowBytes
 * @param {number} about.rows
 * @param {number} about.deleted
 * @param {number} about.textBytes
 * @param {number} about.nameBytes
 * @param {boolean} about.hasModel
 */
export function writeHeader(bytes, about) {
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  view.setUint32(8, VERSION, true);
  view.setUint32(12, KINDS.indexOf(about.kind), true);
  view.setBigUint64(16, BigInt(bytes.length), true);
  view.setUint32(24, about.dimensions, true);
  view.setUint32(28, about.rowBytes, true);
  view.setBigUint64(32, BigInt(about.rows), true);
  view.setBigUint64(40, BigInt(about.deleted), true);
  view.setBigUint64(48, BigInt(about.textBytes), true);
  view.setUint32(56, about.nameBytes, true);
  view.setUint32(60, about.hasModel ? 1 : 0, true);
  return view;
}
