// SPDX-License-Identifier: Apache-2.0
import { takeMemory } from '../base/errors.js';
import { Engine, encode, takeGroup } from './engine.js';
import { serveBy } from './worker.js';

/** An engine on a module that scores pairs of texts. */
class RankEngine extends Engine {
  /**
   * Returns a score for each text, of which more is better. The bits of a score do not depend on the other texts.
   * @param {string} query
   * @param {readonly string[]} texts
   * @returns {Float32Array}
   */
  rank(query, texts) {
    const scores = takeMemory(`${texts.length} scores`, () => new Float32Array(texts.length));
    const first = encode(query);
    let at = 0;
    while (at < texts.length) {
      const group = [first, ...takeGroup(texts, at)];
      scores.set(this.#rankGroup(group), at);
      at += group.length - 1;
    }
    return scores;
  }

  /** @param {Uint8Array[]} group the query, then texts */
  #rankGroup(group) {
    const length = group.reduce((sum, bytes) => sum + bytes.length, 8 * group.length);
    return this.withBlock(length, (input) =>
      this.withBlock(4 * (group.length - 1), (output) => {
        this.writeTexts(input, length, group);
        this.check((wasm) =>
          /** @type {import('../../types/exports.js').RankExports} */ (wasm).engine_rank(
            this.engine,
            input,
            group.length,
            output,
          ),
        );
        return new Float32Array(this.alive().memory.buffer, output, group.length - 1).slice();
      }),
    );
  }
}

/** @type {(post: Parameters<import('./worker.js').Serve>[0], kind?: { open: Function }) => ReturnType<import('./worker.js').Serve>} */
export const serveRank = (post, kind = RankEngine) =>
  serveBy(post, kind, (engine, { type, texts, options }) =>
    type === 'rank'
      ? engine.rank(options.query, texts)
      : Float32Array.from(texts, (text) => engine.countTokens(text)),
  );
