// SPDX-License-Identifier: Apache-2.0
import { WispError } from './errors.js';

/**
 * Which neurons of the feed-forward layers are computed for a token.
 * @typedef {object} SparseOptions
 * @property {'auto' | 'dense' | 'exact' | 'lowrank' | 'sentence'} [predictor] dense: all. exact: the
 *   first half of all, the second of those that are not 0. lowrank: those that a calibrated model's
 *   predictor chooses. sentence: the same for a whole text. auto: lowrank where sparsity is given;
 *   else, in int8, what is faster here of lowrank, exact with ReLU, dense
 * @property {number} [sparsity] of lowrank and sentence: about which share of the neurons is left
 *   out, from 0 to below 1 or to where thresholds end. What the model says unless given
 */

/**
 * The engine says what values are allowed, but it is given numbers alone.
 * @param {SparseOptions} options
 */
export function checkSparse({ sparsity = 0 }) {
  if (typeof sparsity === 'number') return;
  throw new WispError('argument', `sparsity: of type ${typeof sparsity}, not a number`, {
    field: 'sparsity',
  });
}

/**
 * The predictor that is asked for: a sparsity asks for lowrank.
 * @param {SparseOptions} options
 */
export function wantedPredictor({ predictor = 'auto', sparsity }) {
  return predictor === 'auto' && sparsity !== undefined ? 'lowrank' : predictor;
}
