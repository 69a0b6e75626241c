// SPDX-License-Identifier: Apache-2.0
// The state of each neuron of a model by range, for pages that draw it.

/** @typedef {import('./cold-ranges.js').Range} Range */
/** @typedef {import('../../types/protocol.js').LayerNeurons} LayerNeurons */

/** The numbers whose sum is the state of a neuron. */
export const NEURON = Object.freeze({ here: 1, coming: 2, needed: 4, skipped: 8 });

/**
 * Whether the neuron at a place belongs to a mask.
 * @param {Uint8Array} mask
 * @param {number} place
 */
const has = (mask, place) => (mask[place >> 3] >> (place & 7)) & 1;

/**
 * @param {LayerNeurons[]} layers as a worker has reported them
 * @param {object} file
 * @param {(range: Range) => Range[]} file.absent returns the parts of a range that have to be fetched
 * @param {Range[]} file.coming what is being fetched
 * @param {boolean} skip whether the worker computes without neurons that it lacks
 * @returns {import('../../types/index.js').ColdLayer[]}
 */
export const layersOf = (layers, { absent, coming }, skip) =>
  layers.map(({ neurons, hot, coldOffset, rowBytes, present, needed, tokens }) => {
    const states = new Uint8Array(neurons).fill(NEURON.here);
    /**
     * Calls `body` with the cold neurons whose rows have bytes in one of these ranges.
     * @param {Range[]} ranges
     * @param {(place: number) => void} body
     */
    const each = (ranges, body) => {
      for (const [from, to] of ranges) {
        const first = Math.max(0, Math.floor((from - coldOffset) / rowBytes));
        const end = Math.min(neurons - hot, Math.ceil((to - coldOffset) / rowBytes));
        for (let i = first; i < end; i++) body(hot + i);
      }
    };
    if (rowBytes > 0) {
      each(absent([coldOffset, coldOffset + (neurons - hot) * rowBytes]), (place) => {
        states[place] = 0;
      });
      each(coming, (place) => {
        if (states[place] === 0) states[place] = NEURON.coming;
      });
    }
    for (let place = 0; place < neurons; place++) {
      if (has(present, place)) states[place] = NEURON.here;
      if (!has(needed, place)) continue;
      states[place] |= NEURON.needed;
      if (skip && !has(present, place)) states[place] |= NEURON.skipped;
    }
    const byToken = tokens.map((mask) => Uint8Array.from(states, (_, place) => has(mask, place)));
    return { neurons, hot, coldOffset, rowBytes, states, tokens: byToken };
  });
