// SPDX-License-Identifier: Apache-2.0
import { Job } from './job.js';

/** @typedef {import('../types/generate.js').BatchToken} BatchToken */
/** @typedef {import('../types/protocol.js').Written} Written */
/** @typedef {import('../types/protocol.js').WantedText} WantedText */

/** Texts that a worker writes. Its promise resolves to the results. */
export class WriteJob extends Job {
  #texts;
  #atOnce;
  #taken = false;
  /** @type {Omit<BatchToken, 'index'>[]} those of several texts have the index of theirs */
  #tokens = [];
  /** @type {string[]} what has been written of each text */
  #written;
  /** @type {Written['results']} */
  #results;
  #wake = () => {};
  /** Resolves when there are more tokens or the promise is settled. */
  #more;

  /**
   * @param {WantedText[]} texts
   * @param {AbortSignal} [signal]
   * @param {number} [atOnce]
   */
  constructor(texts, signal, atOnce) {
    super(signal);
    this.#texts = texts;
    this.#atOnce = atOnce;
    this.#written = texts.map(() => '');
    this.#results = texts.map(() => ({
      end: 'caller',
      promptTokens: 0,
      reusedTokens: 0,
      tokens: 0,
      promptSeconds: 0,
      seconds: 0,
      droppedTokens: 0,
    }));
    this.#more = this.#nextMore();
    const wake = () => this.#wake();
    this.promise.then(wake, wake); // a caller may await no result, which then is no unhandled rejection
  }

  get waiting() {
    return this.#taken ? 0 : this.#texts.length;
  }

  finishEmpty() {
    this.stop();
  }

  /** @returns {import('../types/internal.js').Task} */
  take() {
    this.#taken = true;
    return {
      job: this,
      request: { type: 'write', texts: this.#texts, atOnce: this.#atOnce },
      part: (written) => this.#add(written),
      done: (written) => {
        this.#add(written);
        this.stop();
      },
      // Text that was handed out cannot be taken back, so another worker does not begin it again.
      losses: Infinity,
    };
  }

  /** Ends the texts, because they are written or their reader has left. */
  stop() {
    this.finish(
      this.#results.map((result, i) => {
        const { seed } = this.#texts[i].options;
        return { ...result, text: this.#written[i], seed };
      }),
    );
  }

  /**
   * Gives the tokens from the first on, and waits for those to come.
   * @returns {AsyncGenerator<any, void>}
   */
  async *#read() {
    for (let i = 0; ; i++) {
      while (i >= this.#tokens.length && !this.settled) await this.#more;
      if (i >= this.#tokens.length) break;
      yield this.#tokens[i];
    }
    await this.promise;
  }

  /**
   * Gives what a function makes of the tokens, but for empty strings. A reader that leaves stops the
   * texts at once, even while it waits for the next token: a generator's own return() waits for that.
   * @param {(token: any) => any} [of]
   * @returns {AsyncIterableIterator<any>}
   */
  tokens(of = (token) => token) {
    const tokens = this.#read();
    const iterator = {
      async next() {
        for (;;) {
          const { value, done } = await tokens.next();
          const given = done ? undefined : of(value);
          if (done || given !== '') return { value: given, done };
        }
      },
      return: async (/** @type {any} */ value) => {
        this.stop();
        await tokens.return();
        return { value, done: true };
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return /** @type {any} */ (iterator);
  }

  #nextMore() {
    return /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        this.#wake = () => resolve();
      })
    );
  }

  /** @param {Written} written */
  #add({ pieces, results }) {
    for (const { index = 0, text } of pieces) this.#written[index] += text;
    this.#tokens.push(...pieces);
    this.#results = results;
    this.#wake();
    this.#more = this.#nextMore();
  }
}
