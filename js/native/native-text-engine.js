// SPDX-License-Identifier: Apache-2.0
// The addon for Node as an engine whose model continues texts.
import { takeMemory } from '../base/errors.js';
import { checkFirst, describe, nameFailures, nameOption } from '../engine/text-engine.js';
import { serveTextBy } from '../engine/text-worker.js';
import { NativeEngine, nativeStarter } from './native-engine.js';

export class NativeTextEngine extends NativeEngine {
  /** @param {Parameters<NativeEngine['open']>} of */
  async open(...of) {
    await super.open(...of).catch((error) => {
      throw nameOption(error);
    });
  }

  /**
   * Begins texts. While they are being written the engine can do nothing else.
   * @param {import('../../types/protocol.js').WantedText[]} texts whose options have been checked
   * @param {number} [atOnce] how many are computed at a time
   */
  async write(texts, atOnce = 0) {
    const description = describe(texts);
    await this.ask((addon, handle) => addon.openWriting(handle, description, atOnce));
    return this.#work();
  }

  /**
   * Begins a search for the likeliest texts, likewise.
   * @param {import('../../types/protocol.js').BeamsRequest} wanted
   */
  async search({ prompt, beams, maxTokens, lengthPenalty, stopIds }) {
    await this.ask((addon, handle) =>
      addon.openSearch(handle, [prompt], beams, maxTokens, lengthPenalty, stopIds),
    );
    return this.#work();
  }

  /** @returns {import('../../types/internal.js').Work} */
  #work() {
    const parse = (/** @type {string} */ json) => nameFailures(JSON.parse(json));
    return {
      run: async (seconds, hand) => {
        const part = (/** @type {string} */ json) => {
          const { pieces, results } = parse(json);
          hand({ pieces, results });
        };
        return parse(await this.ask((addon, handle) => addon.run(handle, seconds, part)));
      },
      stop: () => {
        if (!this.isClosed) this.call((addon, handle) => addon.stop(handle));
      },
      close: () => {
        if (!this.isClosed) this.call((addon, handle) => addon.endWork(handle));
      },
    };
  }

  /** @returns {import('../../types/generate.js').TextEngineInfo} */
  info() {
    return {
      ...super.info(),
      threads: this.call((addon, handle) => addon.threads(handle)),
      chatTemplate: this.call((addon, handle) => addon.chatTemplate(handle)),
      cacheType: /** @type {any} */ (this.call((addon, handle) => addon.cacheType(handle))),
    };
  }

  /**
   * Resolves to the log-probabilities of the tokens from `first` on, each given all before it.
   * @param {string | Int32Array} text or its token ids
   * @param {number} first
   */
  async score(text, first) {
    const ids = await this.#idsOf(text);
    checkFirst(first, ids.length);
    const logprobs = new Float32Array(ids.length - first);
    await this.ask((addon, handle) => addon.score(handle, ids, first, logprobs));
    return logprobs;
  }

  /**
   * Resolves to the text that token ids stand for.
   * @param {Int32Array} ids
   * @param {boolean} continues
   * @returns {Promise<string>}
   */
  async detokenize(ids, continues) {
    return JSON.parse(await this.ask((addon, handle) => addon.detokenize(handle, ids, continues)));
  }

  /**
   * Resolves to the logits that follow each token: a row of vocabularySize values for each.
   * @param {string | Int32Array} text or its token ids
   */
  async logits(text) {
    const ids = await this.#idsOf(text);
    const values = ids.length * super.info().vocabularySize;
    const logits = takeMemory(`${values} logits`, () => new Float32Array(values));
    await this.ask((addon, handle) => addon.logits(handle, ids, logits));
    return logits;
  }

  /** @param {string | Int32Array} text */
  async #idsOf(text) {
    return typeof text === 'string' ? this.tokenize(text) : text;
  }

  /** Resolves to what has been computed of the last texts, as bytes for loadState. */
  saveState() {
    return this.ask((addon, handle) => addon.saveState(handle));
  }

  /** @param {Uint8Array} state */
  loadState(state) {
    return this.ask((addon, handle) => addon.loadState(handle, state));
  }

  /**
   * Names options of C as JavaScript does in errors.
   * @param {Parameters<NativeEngine['ask']>[0]} body
   * @returns {Promise<any>}
   */
  async ask(body) {
    try {
      return await super.ask(body);
    } catch (error) {
      throw nameOption(error);
    }
  }
}

export const startNativeText = nativeStarter(NativeTextEngine, serveTextBy);
