// SPDX-License-Identifier: Apache-2.0
// Rows of a stream of texts, with a bounded number of them under way.
import { onAbort, throwIfAborted } from '../base/errors.js';
import { checkOptions, checkString, shown, wrong } from '../base/options.js';

/** @typedef {import('../../types/text.js').StreamOptions & { field?: string }} AnyOptions */
/** @typedef {import('../../types/text.js').StreamedRow<any>} StreamedRow */

/** @typedef {{ next: () => any, return?: () => any }} Source */

/** Texts that are under way at most, unless the caller says otherwise: enough for four workers. */
const AHEAD = 1024;

/** A stream submits its texts in so many calls, so that workers have the next while rows are read. */
const CALLS = 4;

/**
 * See types/text.d.ts.
 * @param {Pick<import('../../types/index.js').Embedder, 'embed'>} embedder
 * @param {import('../../types/text.js').Source<any>} source
 * @param {AnyOptions} [options]
 */
export function embedStream(embedder, source, options = {}) {
  checkOptions(options, ['signal', 'prompt', 'dimensions', 'priority', 'field', 'ahead']);
  const { field, ahead = AHEAD } = options;
  if (!Number.isInteger(ahead) || ahead < 1) throw wrong('ahead', 'not a whole number from 1');
  if (field !== undefined) checkString(field, 'field');
  if (typeof embedder?.embed !== 'function') throw wrong('embedder', 'not an Embedder');
  return new RowStream(embedder, opener(source), { ...options, ahead });
}

/**
 * Returns the function that begins to read the source.
 * @param {any} source
 * @returns {() => Source}
 */
function opener(source) {
  // A string would be an iterable of its characters.
  if (typeof source === 'object' && source !== null) {
    const begin = source[Symbol.asyncIterator] ?? source[Symbol.iterator];
    if (typeof begin === 'function') return () => begin.call(source);
    if (typeof source.getReader === 'function') {
      return () => {
        const reader = source.getReader(); // Safari's streams are not iterable
        return { next: () => reader.read(), return: () => reader.cancel() };
      };
    }
  }
  throw wrong('source', 'not an iterable, an async iterable or a stream of texts');
}

/** A call of embed for some texts of the source. */
class Call {
  /** @type {{ rows: import('../calls/rows.js').Rows } | { error: unknown } | undefined} */
  end;

  /**
   * @param {any[]} items
   * @param {Promise<any>} rows
   * @param {() => void} wake
   */
  constructor(items, rows, wake) {
    this.items = items;
    rows
      .then(
        (value) => (this.end = { rows: value }),
        (error) => (this.end = { error }),
      )
      .then(wake);
  }
}

/**
 * Rows of a source's texts, in their order.
 *
 * One loop reads the source, submits texts and hands out rows. It sleeps until something has happened: an
 * item came, a call ended, the caller stopped. Each of these is awaited once; Promise.race would hold on
 * to every item of a long stream.
 * @implements {AsyncIterableIterator<StreamedRow>}
 */
class RowStream {
  #embedder;
  #open;
  #options;
  #field;
  #ahead;
  #signal;
  /** Aborts the calls that are under way. */
  #stop = new AbortController();
  #rows;
  #wake = () => {};
  /** Whether the source was asked for an item and has not answered. */
  #asked = false;
  /** @type {Source | undefined} the source, as long as it is open */
  #source;
  /** Whether nothing more is read. */
  #ended = false;
  /** @type {{ error: unknown } | undefined} what ends the stream after the rows before it */
  #failure;
  /** @type {any[]} items that are not submitted */
  #items = [];
  /** @type {string[]} their texts */
  #texts = [];
  /** @type {Call[]} the oldest first */
  #calls = [];
  /** Items that were read and whose rows are not handed out. */
  #held = 0;
  #read = 0;

  /**
   * @param {any} embedder
   * @param {() => Source} open
   * @param {AnyOptions & { ahead: number }} options
   */
  constructor(embedder, open, { ahead, field, signal, priority = 'low', ...options }) {
    this.#embedder = embedder;
    this.#open = open;
    this.#field = field;
    this.#ahead = ahead;
    this.#signal = signal;
    this.#options = { ...options, priority, signal: this.#stop.signal };
    this.#rows = this.#run();
  }

  next() {
    return this.#rows.next();
  }

  /** @param {any} [value] */
  return(value) {
    this.#end();
    return this.#rows.return(value);
  }

  /** @param {any} error */
  throw(error) {
    this.#end();
    return this.#rows.throw(error);
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** The caller wants no more: a row that is being waited for does not come. */
  #end() {
    this.#stop.abort();
    this.#wake();
  }

  /** @returns {AsyncGenerator<StreamedRow, any, void>} */
  async *#run() {
    const signal = /** @type {AbortSignal | undefined} */ (this.#signal);
    const forget = signal ? onAbort(signal, () => this.#end()) : () => {};
    let index = 0;
    try {
      throwIfAborted(signal);
      this.#source = this.#open();
      while (!this.#stop.signal.aborted) {
        this.#readAhead();
        const call = this.#calls[0];
        if (call?.end) {
          this.#calls.shift();
          if ('error' in call.end) throw call.end.error;
          for (const [i, item] of call.items.entries()) {
            yield { index: index++, item, row: call.end.rows.row(i).slice() };
            this.#held--;
            if (this.#stop.signal.aborted) break;
          }
        } else if (!call && this.#ended) {
          if (this.#failure) throw this.#failure.error;
          return;
        } else {
          await new Promise((resolve) => (this.#wake = () => resolve(undefined)));
        }
      }
      throwIfAborted(signal);
    } finally {
      forget();
      this.#stop.abort();
      await this.#close();
    }
  }

  /** Reads items until so many are held, or the source lets wait; submits those that make a call. */
  #readAhead() {
    const most = Math.ceil(this.#ahead / CALLS);
    while (!this.#asked && !this.#ended && this.#held < this.#ahead) {
      this.#ask();
      if (this.#items.length >= most) this.#submit();
    }
    // A slow source: the workers take what there is, and more arrives while they compute it.
    if (this.#items.length >= most || this.#calls.length === 0 || this.#ended) this.#submit();
  }

  /** Asks the source for an item. A synchronous source has answered when this returns. */
  #ask() {
    try {
      const answer = /** @type {Source} */ (this.#source).next();
      if (typeof answer?.then !== 'function') return this.#receive(answer);
      this.#asked = true;
      answer
        .then(
          (/** @type {any} */ result) => this.#receive(result),
          (/** @type {unknown} */ error) => this.#fail(error),
        )
        .then(() => {
          this.#asked = false;
          this.#wake();
        });
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {{ done?: boolean, value: any }} result */
  #receive({ done, value }) {
    if (done) {
      this.#ended = true;
      this.#source = undefined;
      return;
    }
    const text = this.#field === undefined ? value : value?.[this.#field];
    const at = `item ${this.#read++}`;
    if (typeof text === 'string') {
      this.#items.push(value);
      this.#texts.push(text);
      this.#held++;
      return;
    }
    const message = this.#field === undefined ? at : `${at}, ${this.#field}`;
    this.#failure = { error: wrong(message, `${shown(text)} is not a string`) };
    this.#ended = true;
  }

  /** @param {unknown} error of the source */
  #fail(error) {
    this.#failure = { error };
    this.#ended = true;
    this.#source = undefined;
  }

  #submit() {
    if (this.#items.length === 0) return;
    const rows = this.#embedder.embed(this.#texts, this.#options);
    this.#calls.push(new Call(this.#items, rows, () => this.#wake()));
    this.#items = [];
    this.#texts = [];
  }

  /**
   * Closes the source, unless it ended by itself. If it still owes an item, closing may take as long as
   * the item, and nobody waits for it.
   */
  async #close() {
    const source = this.#source;
    this.#ended = true;
    this.#source = undefined;
    const closing = source?.return?.();
    if (!this.#asked) await closing;
    else Promise.resolve(closing).catch(() => {});
  }
}
