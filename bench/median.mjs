// SPDX-License-Identifier: Apache-2.0

/** @param {number[]} numbers */
export const median = (numbers) =>
  [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
