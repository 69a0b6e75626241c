// SPDX-License-Identifier: Apache-2.0
import { WispError } from './errors.js';

/**
 * Options of which neurons of the feed-forward layers are computed.
 * @typedef {object} SparseOptions
 * @property {'auto' | 'dense' | 'exact' | 'lowrank' | 'sentence'} [predictor] dense: all. exact: the
 *   first matrix for all, the second for those whose activation is not 0. lowrank: those that the
 *   predictor of a calibrated model chooses for each token. sentence: those that it chooses for a whole
 *   text. auto: lowrank with a sparsity; else, in int8, the fastest of lowrank, exact with ReLU, dense
 * @property {number} [sparsity] for lowrank and sentence: the approximate share of neurons to skip,
 *   from 0 to below 1. Default: the model's
 */

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
