// SPDX-License-Identifier: Apache-2.0

/** Random numbers: a seed gives the same ones in Node and in every browser. */
export class Random {
  #state;

  /** @param {number} seed */
  constructor(seed) {
    this.#state = seed >>> 0;
  }

  /** Returns 32 random bits: a counter whose bits are mixed well (splitmix32). */
  bits() {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let z = this.#state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  }

  /**
   * Returns a whole number from 0 to n - 1.
   * @param {number} n
   */
  below(n) {
    return Math.floor((this.bits() / 2 ** 32) * n);
  }

  /**
   * Returns a whole number from low to high, both included.
   * @param {number} low
   * @param {number} high
   */
  range(low, high) {
    return low + this.below(high - low + 1);
  }

  /**
   * Returns true once in n times.
   * @param {number} n
   */
  oneIn(n) {
    return this.below(n) === 0;
  }

  /**
   * @template T
   * @param {readonly T[]} list
   * @returns {T}
   */
  pick(list) {
    return list[this.below(list.length)];
  }
}
