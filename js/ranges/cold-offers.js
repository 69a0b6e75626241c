// SPDX-License-Identifier: Apache-2.0
// Hands cold rows that are here to a worker that would leave them out.
import { cancelled, onAbort } from '../base/errors.js';

/** Bytes that are handed to a worker at a time, and more than a row has. */
const OFFER_BYTES = 1024 * 1024;
const ROW_BYTES = 64 * 1024;

/**
 * Hands all cold rows to a worker, in parts, the next one when the worker has taken the last: a worker that is busy
 * would else be sent the whole file. Parts overlap, so that every row, with the chunks in which it is, is within one
 * of them.
 * @param {import('./cold-ranges.js').Ranges} ranges
 * @param {object} rows
 * @param {number} rows.first the first byte of the file that is cold
 * @param {number} rows.end of the file
 * @param {number} rows.chunkBytes bytes of a chunk that has a digest
 * @param {AbortSignal} signal aborted when the worker has ended, which takes nothing any more
 * @param {(offer: import('../../types/protocol.js').OfferRequest) => Promise<unknown>} hand resolves when the worker has
 *   taken the offer
 */
export async function offerRows(ranges, { first, end, chunkBytes }, signal, hand) {
  const before = ROW_BYTES + 2 * chunkBytes;
  for (let at = first; at < end; at += OFFER_BYTES) {
    const from = Math.max(first, at - before);
    const to = Math.min(at + OFFER_BYTES, end);
    const pieces = await ranges.need([[from, to]], signal);
    await new Promise((resolve, reject) => {
      const forget = onAbort(signal, () => reject(cancelled(signal)));
      hand({ type: 'offer', pieces }).then(resolve, reject).finally(forget);
    });
  }
}
