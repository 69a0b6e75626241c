// SPDX-License-Identifier: Apache-2.0
// A job is one call of a user: a promise, and the tasks for workers that fulfil it.
import { WispError, cancelled } from './errors.js';
import { Rows } from './rows.js';
import { estimateTokens } from './tokens.js';

/**
 * One request to a worker. It gets its id when it is sent.
 * @typedef {object} Task
 * @property {Job} job
 * @property {Record<string, unknown>} request
 * @property {import('./sparse.js').SparseOptions} [sparse] the worker's options when the task is done
 * @property {(value: any) => void} done
 */

/** @abstract */
export class Job {
  settled = false;
  /** Estimated tokens of the texts that no worker has taken yet. */
  tokensLeft = 0;
  /** Called once, when the promise is settled. */
  onSettled = () => {};
  /** @type {(value: any) => void} */
  #resolve = () => {};
  /** @type {(error: unknown) => void} */
  #reject = () => {};

  /** @param {AbortSignal} [signal] */
  constructor(signal) {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (!signal) return;
    const abort = () => this.fail(cancelled(signal));
    signal.addEventListener('abort', abort, { once: true });
    const forget = () => signal.removeEventListener('abort', abort);
    this.promise.then(forget, forget);
  }

  /** Texts that no worker has taken yet. */
  get waiting() {
    return 0;
  }

  /** Whether it goes before bulk work. */
  get urgent() {
    return true;
  }

  /**
   * Returns the next task, of at most about `tokens` tokens.
   * @param {number} tokens
   * @returns {Task}
   */
  take(tokens) {
    throw new Error(`a job without tasks was asked for ${tokens} tokens`);
  }

  /** Keeps the promise of a job that has no tasks. */
  finishEmpty() {}

  /** @param {any} value */
  finish(value) {
    this.#settle(() => this.#resolve(value));
  }

  /** @param {unknown} error */
  fail(error) {
    this.#settle(() => this.#reject(error));
  }

  /** @param {() => void} settle */
  #settle(settle) {
    if (this.settled) return;
    this.settled = true;
    settle();
    this.onSettled();
  }
}

/** Token ids of one text. */
export class TokenizeJob extends Job {
  #text;
  #taken = false;

  /**
   * @param {string} text
   * @param {AbortSignal} [signal]
   */
  constructor(text, signal) {
    super(signal);
    this.#text = text;
  }

  get waiting() {
    return this.#taken ? 0 : 1;
  }

  /** @returns {Task} */
  take() {
    this.#taken = true;
    return {
      job: this,
      request: { type: 'tokenize', text: this.#text },
      done: (ids) => this.finish(ids),
    };
  }
}

/** A change of what later jobs run by, tried by one worker. */
export class ChangeJob extends Job {
  #options;
  #changed;
  taken = false;

  /**
   * @param {import('./sparse.js').SparseOptions} options
   * @param {(info: import('./engine.js').EngineInfo) => void} changed called first where it went
   *   well
   */
  constructor(options, changed) {
    super();
    this.#options = options;
    this.#changed = changed;
  }

  /** @returns {Task} */
  take() {
    this.taken = true;
    return {
      job: this,
      request: { type: 'sparse', options: this.#options },
      sparse: this.#options,
      done: (info) => {
        this.#changed(info);
        this.finish(undefined);
      },
    };
  }
}

/** A worker's way to what another has changed to. Where it does not get there it is of no use. */
export class FollowJob extends ChangeJob {
  #discard;

  /**
   * @param {import('./sparse.js').SparseOptions} options
   * @param {(error: WispError) => void} discard
   */
  constructor(options, discard) {
    super(options, () => {});
    this.#discard = discard;
  }

  /** @param {WispError} error */
  fail(error) {
    this.#discard(error);
  }
}

/** Rows of some texts. */
export class EmbedJob extends Job {
  #texts;
  #options;
  #rows;
  #onProgress;
  /** Estimated tokens of each text. */
  #tokens;
  /** Texts' places, the longest first: the short ones at the end let workers finish together. */
  #order;
  #taken = 0;
  #done = 0;

  /**
   * @param {readonly string[]} texts
   * @param {object} how
   * @param {import('./engine.js').EmbedOptions} how.options
   * @param {number} how.dimensions of a row
   * @param {number} how.maxTokens of a text
   * @param {AbortSignal} [how.signal]
   * @param {(progress: { done: number, total: number }) => void} [how.onProgress]
   */
  constructor(texts, { options, dimensions, maxTokens, signal, onProgress }) {
    super(signal);
    this.#texts = texts;
    this.#options = options;
    this.#onProgress = onProgress;
    this.#rows = allocateRows(texts.length, dimensions);
    const tokens = Uint32Array.from(texts, (text) => estimateTokens(text, maxTokens));
    this.#tokens = tokens;
    this.#order = Uint32Array.from(texts, (_, i) => i).sort((a, b) => tokens[b] - tokens[a]);
    this.tokensLeft = tokens.reduce((sum, count) => sum + count, 0);
  }

  get waiting() {
    return this.#order.length - this.#taken;
  }

  get urgent() {
    return this.#order.length === 1;
  }

  finishEmpty() {
    this.finish(this.#rows);
  }

  /**
   * @param {number} budget
   * @returns {Task}
   */
  take(budget) {
    const first = this.#taken;
    let tokens = 0;
    do {
      tokens += this.#tokens[this.#order[this.#taken++]];
    } while (this.waiting > 0 && tokens + this.#tokens[this.#order[this.#taken]] <= budget);
    this.tokensLeft -= tokens;
    const places = this.#order.subarray(first, this.#taken);
    const texts = Array.from(places, (place) => this.#texts[place]);
    return {
      job: this,
      request: { type: 'embed', texts, options: this.#options },
      done: (values) => this.#place(places, values),
    };
  }

  /**
   * Copies the rows of a chunk to the places of their texts.
   * @param {Uint32Array} places
   * @param {Float32Array} values
   */
  #place(places, values) {
    const rows = this.#rows;
    const size = rows.dimensions;
    if (!(values instanceof Float32Array) || values.length !== places.length * size) {
      throw new WispError('worker', 'a worker sent a reply that is no rows of its texts');
    }
    places.forEach((place, i) => rows.set(values.subarray(i * size, (i + 1) * size), place * size));
    this.#done += places.length;
    this.#onProgress?.({ done: this.#done, total: rows.count });
    if (this.#done === rows.count) this.finish(rows);
  }
}

/**
 * @param {number} count
 * @param {number} dimensions
 */
function allocateRows(count, dimensions) {
  try {
    return new Rows(count, dimensions);
  } catch (cause) {
    throw new WispError('memory', `out of memory: ${count} rows of ${dimensions} values`, {
      cause,
    });
  }
}
