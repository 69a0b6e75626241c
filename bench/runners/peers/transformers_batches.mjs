// SPDX-License-Identifier: Apache-2.0
// transformers.js as its documentation says: a feature-extraction pipeline that pads each batch to
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
