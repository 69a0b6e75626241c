// SPDX-License-Identifier: Apache-2.0
// The addon for Node as an engine that scores pairs of texts.
import { serveBy } from '../engine/worker.js';
import { NativeEngine, nativeStarter } from './native-engine.js';

class NativeRankEngine extends NativeEngine {
  /**
   * @param {string} query
   * @param {readonly string[]} texts
   * @returns {Promise<Float32Array>} a score for each text
   */
  async rank(query, texts) {
    const scores = new Float32Array(texts.length + 1);
    await this.ask((addon, handle) => addon.rank(handle, [query, ...texts], undefined, 1, scores));
    return scores.slice(0, -1);
  }
}

export const startNativeRank = nativeStarter(NativeRankEngine, (post, kind) =>
  serveBy(post, kind, (/** @type {NativeRankEngine} */ engine, { type, texts, options }) =>
    type === 'rank' ? engine.rank(options.query, texts) : engine.countTokens(texts),
  ),
);
