// SPDX-License-Identifier: Apache-2.0
// The cosine of two vectors.

/**
 * Returns the cosine of two vectors; 0 if one of them is of zeros.
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 */
export function cosine(a, b) {
  let ab = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa === 0 || bb === 0 ? 0 : ab / (Math.sqrt(aa) * Math.sqrt(bb));
}
