// SPDX-License-Identifier: Apache-2.0
import { check } from '../pool/checks.mjs';

/**
 * Throws if two lists of numbers differ in a bit.
 * @param {Float32Array} found
 * @param {Float32Array} expected
 * @param {string} [what]
 */
export function sameBits(found, expected, what = 'rows') {
  check(found.length === expected.length, `${what}: ${found.length} values`);
  const other = bits(expected);
  const at = bits(found).findIndex((value, i) => value !== other[i]);
  check(at < 0, `${what}: value ${at} is ${found[at]}, not ${expected[at]}`);
}

/** @param {Float32Array} rows */
const bits = (rows) => new Uint32Array(rows.buffer, rows.byteOffset, rows.length);
