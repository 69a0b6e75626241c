// SPDX-License-Identifier: Apache-2.0
// The code that runs in a worker whose model may lack its cold neurons.
import { unpackError } from '../base/errors.js';
import { orHelp } from '../engine/threads.js';
import { serveBy } from '../engine/worker.js';
import { ColdEngine } from './cold-engine.js';

/** @typedef {import('../../types/protocol.js').Piece} Piece */

/**
 * @param {Parameters<import('../engine/worker.js').Serve>[0]} post
 * @param {import('../engine/threads.js').StartHelper} [startHelper]
 * @returns {ReturnType<import('../engine/worker.js').Serve>}
 */
export const serveCold = (post, startHelper) => {
  /** @type {ColdEngine | undefined} */
  let engine;
  /** @type {Float64Array | undefined} neurons that each text of the last request was computed without */
  let skipped;
  /** @type {(answer: import('../../types/protocol.js').ProvideRequest) => void} */
  let provided = () => {};

  /** The state of all neurons, if someone watches it. */
  const layers = () => (engine?.cold?.watch ? engine.neurons() : undefined);

  /**
   * Asks the pool for bytes of the file.
   * @param {[number, number][]} ranges
   * @returns {Promise<Piece[]>}
   */
  const fetch = (ranges) =>
    new Promise((resolve, reject) => {
      provided = ({ error, pieces }) => (error ? reject(unpackError(error)) : resolve(pieces));
      post(/** @type {any} */ ({ type: 'needs', ranges, layers: layers() }), []);
    });

  const open = async (/** @type {[any, any, any]} */ ...of) => {
    const opened = await ColdEngine.open(...of, startHelper);
    if (engine) opened.countOn(engine);
    return (engine = opened);
  };
  const receive = serveBy(
    (reply, transfer) => {
      const cold = reply.type === 'done' && engine?.cold && engine.coldStats();
      post(cold ? { ...reply, cold, skipped, layers: layers() } : reply, transfer);
      skipped = undefined;
    },
    { open },
    async (current, { type, texts, options }) => {
      if (type !== 'embed')
        return Float32Array.from(texts, (/** @type {string} */ text) => current.countTokens(text));
      if (!current.cold) return current.embed(texts, options);
      const found = await current.embedCold(texts, options, fetch);
      skipped = found.skipped;
      return found.rows;
    },
  );
  /** @param {Piece[]} pieces bytes that no text waits for */
  const take = (pieces) => {
    try {
      for (const { offset, bytes } of pieces) engine?.provide(offset, bytes);
    } catch {
      // Texts are computed without these rows, and say so.
    }
    post(/** @type {any} */ ({ type: 'taken' }), []);
  };
  /** @param {import('../../types/protocol.js').AheadTexts[]} parts */
  const lookAhead = (parts) => {
    try {
      const ranges = parts.flatMap(({ texts, prompt }) => engine?.textNeeds(texts, prompt) ?? []);
      post(/** @type {any} */ ({ type: 'ahead', ranges }), []);
    } catch {
      // The texts themselves meet the same error.
    }
  };
  /** @type {Record<string, (request: any) => void>} messages without a reply */
  const others = {
    provide: (request) => provided(request),
    offer: ({ pieces }) => take(pieces),
    ahead: ({ parts }) => lookAhead(parts),
  };
  return orHelp(post, async (/** @type {any} */ request) =>
    (others[request.type] ?? receive)(request),
  );
};
