// SPDX-License-Identifier: Apache-2.0
// Joins the files of a model that llama-gguf-split has divided. Each has a header and the data of some of the tensors, and
// the first the metadata of the model: the whole has one header, which lists all tensors, and then the data of each file.
import { WispError } from '../base/errors.js';

/**
 * A file of which bytes can be read.
 * @typedef {object} Part
 * @property {string} name
 * @property {number} size
 * @property {(from: number, to: number) => Promise<Uint8Array<ArrayBuffer>>} read
 */

/**
 * How the whole is made: its header, and the bytes of each file that follow, with zeros behind them.
 * @typedef {{ size: number, header: Uint8Array<ArrayBuffer>, data: { from: number, size: number, zeros: number }[] }} Joined
 */

/** @typedef {{ key: string, type: number, value: number, start: number, end: number }} Entry */

/** @typedef {{ start: number, offset: number, end: number }} Tensor where it is in the header, and its offset there */

const MAGIC = 0x46554747;
const VERSION = 3;
const [TEXT, LIST] = [8, 9];

/** The bytes of a value of each type. */
const BYTES = [1, 1, 2, 2, 4, 4, 4, 1, NaN, NaN, 8, 8, 8];

/** Bytes of a header that are read first. */
const FIRST_BYTES = 1 << 20;

const ALIGNMENT = 32;
const MOST_ALIGNMENT = 65536;

/** The bytes of a header that have been read do not suffice. */
class TooShort extends Error {}

/** Reads a header from its beginning. */
class Reader {
  #view;
  #part;
  at = 0;

  /** @param {Uint8Array<ArrayBuffer>} bytes @param {Part} part */
  constructor(bytes, part) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#part = part;
  }

  /**
   * Goes on by some bytes, and returns where they begin.
   * @param {number} length
   */
  skip(length) {
    const start = this.at;
    const { name, size } = this.#part;
    if (start + length > size) throw new WispError('format', `${name} ends in its header`);
    if (start + length > this.#view.byteLength) throw new TooShort();
    this.at += length;
    return start;
  }

  /** @param {number} type @param {string} key */
  bytesOf(type, key) {
    if (BYTES[type] > 0) return BYTES[type];
    const { name } = this.#part;
    throw new WispError('format', `${name}: ${key}: ${type} is not a type that a value may have`, {
      field: key,
    });
  }

  u32() {
    return this.#view.getUint32(this.skip(4), true);
  }

  u64() {
    return Number(this.#view.getBigUint64(this.skip(8), true));
  }

  text() {
    const length = this.u64();
    const start = this.skip(length);
    return new TextDecoder().decode(
      new Uint8Array(this.#view.buffer, this.#view.byteOffset + start, length),
    );
  }

  /**
   * Reads a value, of which only small integers count here.
   * @param {number} type
   * @param {string} key
   */
  value(type, key) {
    if (type === TEXT) return this.skip(this.u64());
    if (type === LIST) return this.list(key);
    const bytes = this.bytesOf(type, key);
    const start = this.skip(bytes);
    if (bytes === 2) return this.#view.getUint16(start, true);
    return bytes === 4 ? this.#view.getUint32(start, true) : NaN;
  }

  /** @param {string} key */
  list(key) {
    const type = this.u32();
    const count = this.u64();
    if (type === TEXT) for (let i = 0; i < count; i++) this.skip(this.u64());
    else this.skip(count * this.bytesOf(type, key));
    return NaN;
  }
}

/** @param {Reader} reader @returns {Entry} */
function readEntry(reader) {
  const start = reader.at;
  const key = reader.text();
  const type = reader.u32();
  return { key, type, value: reader.value(type, key), start, end: reader.at };
}

/** @param {Reader} reader @returns {Tensor} */
function readTensor(reader) {
  const start = reader.at;
  reader.skip(reader.u64());
  reader.skip(reader.u32() * 8); // the sizes
  reader.skip(4); // the type
  return { start, offset: reader.u64(), end: reader.at };
}

/** @param {Uint8Array<ArrayBuffer>} bytes @param {Part} part */
function readHeader(bytes, part) {
  const reader = new Reader(bytes, part);
  const isGguf = reader.u32() === MAGIC && reader.u32() === VERSION;
  if (!isGguf)
    throw new WispError('format', `${part.name} is not a GGUF file of version ${VERSION}`);
  const tensors = reader.u64();
  const entries = [];
  for (let left = reader.u64(); left > 0; left--) entries.push(readEntry(reader));
  const table = [];
  for (let left = tensors; left > 0; left--) table.push(readTensor(reader));
  return { bytes, entries, tensors: table, end: reader.at };
}

/** @typedef {ReturnType<typeof readHeader>} Header */

/**
 * @param {Part} part
 * @returns {Promise<Header>}
 */
async function headerOf(part) {
  for (let length = FIRST_BYTES; ; length *= 2) {
    const bytes = await part.read(0, Math.min(length, part.size));
    try {
      return readHeader(bytes, part);
    } catch (error) {
      if (!(error instanceof TooShort)) throw error;
    }
  }
}

/** @param {Header} header @param {string} key */
const valueOf = ({ entries }, key) => entries.find((entry) => entry.key === key)?.value;

/** @param {number} size @param {number} unit */
const rounded = (size, unit) => Math.ceil(size / unit) * unit;

/**
 * @param {Header} header
 * @param {Part} part
 * @param {number} i
 * @param {number} count
 */
function checkPart(header, { name }, i, count) {
  for (const [field, number] of /** @type {const} */ ([
    ['split.no', i],
    ['split.count', count],
  ])) {
    const value = valueOf(header, field);
    const what =
      value === undefined
        ? 'absent: the file is not one of the parts of a model'
        : `${value}, and its place needs ${number}`;
    if (value !== number) throw new WispError('format', `${name}: ${field}: ${what}`, { field });
  }
}

/**
 * @param {Header} header
 * @param {Part} part
 */
function alignmentOf(header, { name }) {
  const key = 'general.alignment';
  const alignment = valueOf(header, key) ?? ALIGNMENT;
  if (alignment >= 8 && alignment <= MOST_ALIGNMENT && Number.isInteger(Math.log2(alignment)))
    return alignment;
  throw new WispError(
    'format',
    `${name}: ${key}: it is not a power of two from 8 to ${MOST_ALIGNMENT}`,
    { field: key },
  );
}

/**
 * Joins pieces of bytes, with zeros behind them up to a multiple of a size.
 * @param {Uint8Array<ArrayBuffer>[]} pieces
 * @param {number} unit
 */
function concatenated(pieces, unit) {
  const size = pieces.reduce((sum, { length }) => sum + length, 0);
  const all = new Uint8Array(rounded(size, unit));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** @param {number[]} numbers */
function words(...numbers) {
  const bytes = new Uint8Array(8 * numbers.length);
  const view = new DataView(bytes.buffer);
  numbers.forEach((number, i) => view.setBigUint64(8 * i, BigInt(number), true));
  return bytes;
}

/**
 * Says how the whole is made of the files of a model.
 * @param {readonly Part[]} parts
 * @returns {Promise<Joined>}
 */
export async function joined(parts) {
  const headers = await Promise.all(parts.map(headerOf));
  headers.forEach((header, i) => checkPart(header, parts[i], i, parts.length));
  const alignments = headers.map((header, i) => alignmentOf(header, parts[i]));
  const [alignment] = alignments;
  const metadata = headers[0].entries.filter(({ key }) => !key.startsWith('split.'));
  const tensors = headers.reduce((sum, header) => sum + header.tensors.length, 0);
  const pieces = [
    new Uint8Array(Uint32Array.of(MAGIC, VERSION).buffer),
    words(tensors, metadata.length),
  ];
  for (const { start, end } of metadata) pieces.push(headers[0].bytes.subarray(start, end));
  const data = [];
  let placed = 0;
  for (const [i, header] of headers.entries()) {
    const own = alignments[i];
    for (const { start, offset, end } of header.tensors)
      pieces.push(header.bytes.subarray(start, end - 8), words(placed + offset));
    const { name, size: all } = parts[i];
    const from = Math.min(rounded(header.end, own), all);
    const size = all - from;
    const isLast = i === parts.length - 1;
    // The zeros below must not take the place of bytes that are absent.
    if (!isLast && size % own !== 0)
      throw new WispError(
        'format',
        `${name} has ${size} bytes of tensors, not a multiple of ${own}: it was cut or changed`,
      );
    const zeros = isLast ? 0 : rounded(size, alignment) - size;
    data.push({ from, size, zeros });
    placed += size + zeros;
  }
  const header = concatenated(pieces, alignment);
  return { size: header.length + placed, header, data };
}

/**
 * Joins Blobs, without a copy of their bytes.
 * @param {ReadonlyMap<string, Blob>} files by their names, the first one first
 */
export async function joinedBlob(files) {
  const blobs = [...files.values()];
  const { header, data } = await joined(
    Array.from(files, ([name, blob]) => ({
      name,
      size: blob.size,
      read: async (from, to) => new Uint8Array(await blob.slice(from, to).arrayBuffer()),
    })),
  );
  return new Blob([
    header,
    ...data.flatMap(({ from, zeros }, i) => [blobs[i].slice(from), new Uint8Array(zeros)]),
  ]);
}
