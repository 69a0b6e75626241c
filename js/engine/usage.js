// SPDX-License-Identifier: Apache-2.0
// Statistics summed over the engines of all workers, closed engines included.

/** @typedef {import('./engine.js').EngineStats} EngineStats */

const NO_VECTORS = { found: 0, computed: 0, lost: 0, truncated: 0 };

const COUNTS = /** @type {const} */ (['texts', 'tokens', 'truncatedTexts']);

/** @typedef {import('../../types/index.js').Totals} Totals */

/** @returns {Totals} */
export function noTotals() {
  return { texts: 0, tokens: 0, truncatedTexts: 0, stageSeconds: {}, layers: [] };
}

/**
 * @param {Totals} totals
 * @param {Totals | undefined} more
 */
export function addTotals(totals, more) {
  if (!more) return;
  for (const name of COUNTS) totals[name] += more[name];
  addNumbers(totals.stageSeconds, more.stageSeconds);
  if (more.vectorCache) addNumbers((totals.vectorCache ??= { ...NO_VECTORS }), more.vectorCache);
  more.layers.forEach((layer, i) =>
    addNumbers((totals.layers[i] ??= /** @type {any} */ ({})), layer),
  );
}

/**
 * @param {Record<string, number>} sums
 * @param {Record<string, number>} more
 */
function addNumbers(sums, more) {
  for (const [name, value] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + value;
}
