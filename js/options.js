// SPDX-License-Identifier: Apache-2.0
import { WispError } from './errors.js';

/** @typedef {import('../types/index.js').SparseOptions} SparseOptions */

/**
 * Checks that options are an object, that each of them exists, and the values of those that are
 * objects or names: others are checked where they are used.
 * @param {unknown} options
 * @param {readonly string[]} known
 */
export function checkOptions(options, known) {
  if (typeof options !== 'object' || options === null) {
    throw wrong('options', `${options === null ? 'null' : `of type ${typeof options}`}, no object`);
  }
  for (const [name, value] of Object.entries(options)) {
    if (!known.includes(name)) {
      throw wrong(name, `there is no such option; there are ${known.join(', ')}`);
    }
    if (value === undefined) continue;
    if (/^(compute|kernels|predictor)$/.test(name)) checkString(value, name);
    if (name === 'sparsity') checkSparse({ sparsity: value });
    if (name === 'worker' && !value) throw wrong(name, 'no URL and no function');
    if (name === 'onProgress' && typeof value !== 'function') throw wrong(name, 'no function');
    if (name === 'signal' && typeof value?.addEventListener !== 'function') {
      throw wrong(name, 'no AbortSignal; give the signal of an AbortController');
    }
  }
}

/**
 * @param {string} field
 * @param {string} what
 */
export function wrong(field, what) {
  return new WispError('argument', `${field}: ${what}`, { field });
}

/**
 * Returns a value that is wrong, as messages show it: not every one can become text.
 * @param {unknown} value
 */
export function shown(value) {
  return Object(value) === value ? 'an object' : `${typeof value} ${String(value)}`;
}

/**
 * @param {unknown} value
 * @param {string} field
 */
export function checkString(value, field) {
  if (typeof value === 'string') return;
  throw wrong(field, `of type ${typeof value}, not a string`);
}

/**
 * Checks the type alone: the engine checks the values.
 * @param {SparseOptions} options
 */
export function checkSparse({ sparsity = 0 }) {
  if (typeof sparsity === 'number') return;
  throw wrong('sparsity', `of type ${typeof sparsity}, not a number`);
}

/**
 * Returns the predictor to use: where only a sparsity is given, that is lowrank.
 * @param {SparseOptions} options
 */
export function wantedPredictor({ predictor = 'auto', sparsity }) {
  return predictor === 'auto' && sparsity !== undefined ? 'lowrank' : predictor;
}
