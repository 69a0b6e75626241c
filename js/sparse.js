// SPDX-License-Identifier: Apache-2.0
import { WispError } from './errors.js';

/** @typedef {import('../types/index.js').SparseOptions} SparseOptions */

/**
 * Checks the type alone: the engine checks the values.
 * @param {SparseOptions} options
 */
export function checkSparse({ sparsity = 0 }) {
  if (typeof sparsity === 'number') return;
  throw new WispError('argument', `sparsity: of type ${typeof sparsity}, not a number`, {
    field: 'sparsity',
  });
}

/**
 * Returns the predictor to use: where only a sparsity is given, that is lowrank.
 * @param {SparseOptions} options
 */
export function wantedPredictor({ predictor = 'auto', sparsity }) {
  return predictor === 'auto' && sparsity !== undefined ? 'lowrank' : predictor;
}
