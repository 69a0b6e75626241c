// SPDX-License-Identifier: Apache-2.0

const WORDS = 'water finds its own way down from any hill to some distant shore'.split(' ');

/**
 * Texts of one to four words, no two alike; every length comes up in any few hundred of them.
 * @param {number} count
 * @param {number} first
 */
export function shortTexts(count, first) {
  return Array.from({ length: count }, (_, i) => {
    const words = Array.from(
      { length: i % 4 },
      (_, k) => WORDS[(first + i * 5 + k * 7) % WORDS.length],
    );
    return [first + i, ...words].join(' ');
  });
}
