// SPDX-License-Identifier: Apache-2.0

/** @typedef {import('../../types/search.js').Match} Match */

/** The k highest of scores that are offered in the order of their indices. */
export class Best {
  #k;
  /** @type {Match[]} a heap: the worst match is the first */
  #heap = [];

  /** @param {number} k */
  constructor(k) {
    this.#k = k;
  }

  /**
   * Whether `offer` would keep a match with this score. One that is not a number is no match.
   * @param {number} score
   */
  wants(score) {
    const heap = this.#heap;
    if (heap.length < this.#k) return !Number.isNaN(score);
    return this.#k > 0 && score > heap[0].score;
  }

  /**
   * @param {number} index
   * @param {number} score
   */
  offer(index, score) {
    if (!this.wants(score)) return;
    if (this.#heap.length < this.#k) this.#rise({ index, score });
    else this.#sink({ index, score });
  }

  /** Returns the matches, the best first, equal ones in the order of their indices. */
  sorted() {
    return this.#heap.sort((a, b) => (isWorse(a, b) ? 1 : -1));
  }

  /** @param {Match} match that is added */
  #rise(match) {
    const heap = this.#heap;
    let at = heap.length;
    for (; at > 0; at = (at - 1) >> 1) {
      const above = heap[(at - 1) >> 1];
      if (!isWorse(match, above)) break;
      heap[at] = above;
    }
    heap[at] = match;
  }

  /** @param {Match} match that takes the place of the worst */
  #sink(match) {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isWorse(heap[below + 1], heap[below])) below++;
      if (!isWorse(heap[below], match)) break;
      heap[at] = heap[below];
      at = below;
    }
    heap[at] = match;
  }
}

/**
 * @param {Match} a
 * @param {Match} b
 */
function isWorse(a, b) {
  return a.score < b.score || (a.score === b.score && a.index > b.index);
}
