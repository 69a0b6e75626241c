// SPDX-License-Identifier: Apache-2.0
// Divides a GGUF file as llama-gguf-split does: the first file has the metadata, and each has some of the tensors.

const ALIGNMENT = 32;
const [U16, I32, TEXT, LIST] = [2, 5, 8, 9];
const BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

/** @param {number} at */
const aligned = (at) => Math.ceil(at / ALIGNMENT) * ALIGNMENT;

/** @param {Buffer} bytes @param {number} at @returns {number} where the value ends */
function endOfValue(bytes, at, type = bytes.readUInt32LE(at - 4)) {
  if (type === TEXT) return at + 8 + Number(bytes.readBigUInt64LE(at));
  if (type !== LIST) return at + BYTES[type];
  const element = bytes.readUInt32LE(at);
  const count = Number(bytes.readBigUInt64LE(at + 4));
  let end = at + 12;
  for (let i = 0; i < count; i++) end = endOfValue(bytes, end, element);
  return end;
}

/** @param {Buffer} bytes */
function parse(bytes) {
  const [tensors, keys] = [8, 16].map((at) => Number(bytes.readBigUInt64LE(at)));
  let at = 24;
  const skipText = () => (at += 8 + Number(bytes.readBigUInt64LE(at)));
  for (let i = 0; i < keys; i++) {
    skipText();
    at = endOfValue(bytes, at + 4);
  }
  const metadata = bytes.subarray(24, at);
  const table = [];
  for (let i = 0; i < tensors; i++) {
    const start = at;
    skipText();
    at += 4 + 8 * bytes.readUInt32LE(at) + 4;
    table.push({ info: bytes.subarray(start, at), offset: Number(bytes.readBigUInt64LE(at)) });
    at += 8;
  }
  return { keys, metadata, table, data: bytes.subarray(aligned(at)) };
}

/** @param {number[]} numbers */
const words = (...numbers) => Buffer.from(BigUint64Array.from(numbers, BigInt).buffer);

/** @param {string} key @param {number} type @param {Buffer} value */
const entry = (key, type, value) =>
  Buffer.concat([
    words(key.length),
    Buffer.from(key),
    Buffer.from(Uint32Array.of(type).buffer),
    value,
  ]);

/** @param {number} number */
const u16 = (number) => Buffer.from(Uint16Array.of(number).buffer);

/**
 * @param {Buffer} bytes of a model
 * @param {number} count
 * @returns {Buffer[]}
 */
export function splitModel(bytes, count) {
  const { keys, metadata, table, data } = parse(bytes);
  const bounds = Array.from({ length: count + 1 }, (_, i) =>
    Math.floor((i * table.length) / count),
  );
  const offsets = [...table.map(({ offset }) => offset), data.length];
  return bounds.slice(1).map((end, i) => {
    const own = table.slice(bounds[i], end);
    const from = offsets[bounds[i]];
    const header = Buffer.concat([
      bytes.subarray(0, 8),
      words(own.length, (i === 0 ? keys : 0) + 3),
      ...(i === 0 ? [metadata] : []),
      entry('split.no', U16, u16(i)),
      entry('split.count', U16, u16(count)),
      entry('split.tensors.count', I32, Buffer.from(Int32Array.of(table.length).buffer)),
      ...own.flatMap(({ info, offset }) => [info, words(offset - from)]),
    ]);
    const padding = Buffer.alloc(aligned(header.length) - header.length);
    return Buffer.concat([header, padding, data.subarray(from, offsets[end])]);
  });
}

/**
 * @param {Buffer} bytes of a model
 * @param {number} count
 * @param {string} [name]
 * @returns {Record<string, Buffer>} by the names that llama-gguf-split gives
 */
export function splitFiles(bytes, count, name = 'm') {
  const digits = (/** @type {number} */ number) => String(number).padStart(5, '0');
  const parts = splitModel(bytes, count);
  return Object.fromEntries(
    parts.map((part, i) => [`${name}-${digits(i + 1)}-of-${digits(count)}.gguf`, part]),
  );
}
