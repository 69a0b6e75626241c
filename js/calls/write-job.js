// SPDX-License-Identifier: Apache-2.0
import { unpackError } from '../base/errors.js';
import { Job } from './job.js';

/** @typedef {import('../../types/generate.js').BatchToken} BatchToken */
/** @typedef {import('../../types/protocol.js').Written} Written */
/** @typedef {import('../../types/protocol.js').WantedText} WantedText */

/** Texts that a worker writes. Its promise resolves to the results. */
export class WriteJob extends Job {
  #texts;
  #atOnce;
  /** Settles when the request's conversations are read and a module is loaded. @type {Promise<object> | undefined} */
  #ready;
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
   * @param {(WantedText & { conversation?: Uint8Array | Promise<Uint8Array> })[]} texts
   * @param {AbortSignal} [signal]
   * @param {number} [atOnce]
   * @param {() => Promise<WebAssembly.Module | undefined>} [languages] wisp-languages.wasm, if a text needs it
   */
  constructor(texts, signal, atOnce, languages) {
    super(signal);
    const isRead = texts.every(({ conversation }) => !(conversation instanceof Promise));
    if (languages || !isRead) {
      this.#ready = wholeOf(texts, languages);
      this.#ready.catch((error) => this.fail(error));
    }
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
    this.promise.then(wake, wake); // a caller may await no result, which then is not an unhandled rejection
  }

  get waiting() {
    return this.#taken ? 0 : this.#texts.length;
  }

  finishEmpty() {
    this.stop();
  }

  /** @returns {import('../../types/internal.js').Task} */
  take() {
    this.#taken = true;
    const request = { type: 'write', texts: this.#texts, atOnce: this.#atOnce };
    return {
      job: this,
      request,
      ready: this.#ready?.then((more) => void Object.assign(request, more)),
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
      this.#results.map(({ error, ...result }, i) => {
        const { seed } = this.#texts[i].options;
        const failed = error && { error: unpackError(error) };
        return { ...result, ...failed, text: this.#written[i], seed };
      }),
    );
  }

  /**
   * Gives the tokens from the first on, and waits for those to come.
   * @param {(results: any[]) => void} check
   * @returns {AsyncGenerator<any, void>}
   */
  async *#read(check) {
    for (let i = 0; ; i++) {
      while (i >= this.#tokens.length && !this.settled) await this.#more;
      if (i >= this.#tokens.length) break;
      yield this.#tokens[i];
    }
    check(await this.promise);
  }

  /**
   * Gives what a function makes of the tokens, but for empty strings. A reader that leaves stops the
   * texts at once, even while it waits for the next token: a generator's own return() waits for that.
   * @param {(token: any) => any} [of]
   * @param {(results: any[]) => void} [check] throws if the results are not good
   * @returns {AsyncIterableIterator<any>}
   */
  tokens(of = (token) => token, check = () => {}) {
    const tokens = this.#read(check);
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

/**
 * @param {(WantedText & { conversation?: Uint8Array | Promise<Uint8Array> })[]} texts
 * @param {(() => Promise<WebAssembly.Module | undefined>) | undefined} languages
 */
const wholeOf = async (texts, languages) => ({
  texts: await Promise.all(
    texts.map(async (text) => ({ ...text, conversation: await text.conversation })),
  ),
  languages: await languages?.(),
});
