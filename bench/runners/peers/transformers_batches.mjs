// SPDX-License-Identifier: Apache-2.0
// Runs transformers.js as its documentation says: a feature-extraction pipeline pads each batch to
// its longest text, pools and normalises.
import { batchChoices, inBatches } from '../measure.mjs';

/**
 * @param {any} pipe
 * @param {Record<string, unknown>} about
 * @returns {import('../measure.mjs').Peer}
 */
export function peerOf(pipe, about) {
  return {
    about,
    choices: batchChoices,
    embed: (texts, { batch }) =>
      inBatches(texts, batch, async (some) => {
        const tensor = await pipe(some, { pooling: 'mean', normalize: true });
        return tensor.data;
      }),
  };
}
