// SPDX-License-Identifier: Apache-2.0
// Small models with many chunks.
import { createHash } from 'node:crypto';
import { readTable } from '../../js/ranges/cold-table.js';

/**
 * Returns a file with chunks of another length. Digests have as many bytes as tensors are aligned to, so that what
 * stands behind them only moves.
 * @param {Buffer} file
 * @param {number} cold the first byte of its cold part
 * @param {number} length of a chunk, in bytes
 */
export function rechunk(file, cold, length) {
  const old = readTable(file, cold, file.length);
  if (!old) throw new Error('the file has no digests');
  const count = Math.ceil((cold - old.start) / length) + Math.ceil((file.length - cold) / length);
  const at = (/** @type {string} */ key) => file.indexOf(key) + key.length;
  const size = at('wisp.chunks.bytes') + 4; // behind the type
  const table = at('wisp.chunks.sha256') + 4 + 4;
  const data = file.subarray(old.start);
  const digests = [];
  for (const part of [data.subarray(0, cold - old.start), data.subarray(cold - old.start)]) {
    for (let from = 0; from < part.length; from += length) {
      const chunk = part.subarray(from, from + length);
      digests.push(createHash('sha256').update(chunk).digest());
    }
  }
  const numbers = Buffer.alloc(8);
  numbers.writeBigUInt64LE(BigInt(32 * count));
  const result = Buffer.concat([
    file.subarray(0, table),
    numbers,
    ...digests,
    file.subarray(table + 8 + 32 * old.count),
  ]);
  // Metadata may stand in any order.
  result.writeUInt32LE(length, size < table ? size : size + 32 * (count - old.count));
  return result;
}

/**
 * Returns the file without digests, so that ranges are those of rows.
 * @param {Buffer} file
 */
export function withoutChunks(file) {
  const copy = Buffer.from(file);
  for (const key of ['wisp.chunks.bytes', 'wisp.chunks.sha256']) {
    const at = copy.indexOf(key);
    if (at < 0) throw new Error(`the file has no ${key}`);
    copy.write('unknown', at);
  }
  return copy;
}
