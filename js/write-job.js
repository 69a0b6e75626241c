// SPDX-License-Identifier: Apache-2.0
import { Job } from './job.js';

/** @typedef {import('../types/generate.js').Token} Token */
/** @typedef {import('../types/protocol.js').Written} Written */

/** One text that a worker writes. Its promise resolves to the result. */
export class WriteJob extends Job {
  #request;
  #seed;
  #taken = false;
  /** @type {Token[]} */
  #tokens = [];
  /** @type {Written['result']} */
  #result = {
    end: 'caller',
    promptTokens: 0,
    reusedTokens: 0,
    tokens: 0,
    promptSeconds: 0,
    seconds: 0,
  };
  #wake = () => {};
  /** Resolves when there are more tokens or the promise is settled. */
  #more;

  /**
   * @param {string | readonly import('../types/generate.js').Message[]} prompt
   * @param {import('../types/generate.js').ChatTextOptions & { seed: number }} options
   * @param {AbortSignal} [signal]
   */
  constructor(prompt, options, signal) {
    super(signal);
    this.#request = { type: 'write', prompt, options };
    this.#seed = options.seed;
    this.#more = this.#nextMore();
    const wake = () => this.#wake();
    this.promise.then(wake, wake); // a caller may await no result, which then is no unhandled rejection
  }

  get waiting() {
    return this.#taken ? 0 : 1;
  }

  /** @returns {import('../types/internal.js').Task} */
  take() {
    this.#taken = true;
    return {
      job: this,
      request: this.#request,
      part: (written) => this.#add(written),
      done: (written) => {
        this.#add(written);
        this.finish(this.#whole(written.result.end));
      },
      // Text that was handed out cannot be taken back, so another worker does not begin it again.
      losses: Infinity,
    };
  }

  /** Ends the text because its reader has left. */
  stop() {
    this.finish(this.#whole('caller'));
  }

  /**
   * Gives the tokens from the first on, and waits for those to come.
   * @returns {AsyncGenerator<Token, void>}
   */
  async *tokens() {
    try {
      for (let i = 0; ; i++) {
        while (i >= this.#tokens.length && !this.settled) await this.#more;
        if (i >= this.#tokens.length) break;
        yield this.#tokens[i];
      }
      await this.promise;
    } finally {
      this.stop();
    }
  }

  #nextMore() {
    return /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        this.#wake = () => resolve();
      })
    );
  }

  /** @param {Written} written */
  #add({ pieces, result }) {
    this.#tokens.push(...pieces);
    this.#result = result;
    this.#wake();
    this.#more = this.#nextMore();
  }

  /** @param {Written['result']['end']} end */
  #whole(end) {
    const text = this.#tokens.map((token) => token.text).join('');
    return { ...this.#result, end, text, seed: this.#seed };
  }
}
