// SPDX-License-Identifier: Apache-2.0
// A job is one call of a user: a promise, and the tasks for workers that fulfil it.
import { WispError, cancelled, onAbort, takeMemory } from '../base/errors.js';
import { Rows } from './rows.js';

/** @typedef {import('../../types/internal.js').Task} Task */

/** @abstract */
export class Job {
  settled = false;
  /** Called once, when the promise is settled. */
  onSettled = () => {};
  /** Called with the result of a task before the job has it. @type {(value: any) => void} */
  onDone = () => {};
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
    const forget = onAbort(signal, () => this.fail(cancelled(signal)));
    this.promise.then(forget, forget);
  }

  /** Texts that no worker has taken yet. */
  get waiting() {
    return 0;
  }

  /** Estimated tokens of the texts that no worker has taken yet. */
  get tokensLeft() {
    return 0;
  }

  /** Whether it goes before bulk work. */
  urgent = true;

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

/** One request, whose result the promise resolves to. */
export class OneTaskJob extends Job {
  #request;
  #taken = false;

  /**
   * @param {Record<string, unknown>} request
   * @param {AbortSignal} [signal]
   */
  constructor(request, signal) {
    super(signal);
    this.#request = request;
  }

  get waiting() {
    return this.#taken ? 0 : 1;
  }

  /** @returns {Task} */
  take() {
    this.#taken = true;
    return { job: this, request: this.#request, done: (value) => this.finish(value) };
  }
}

/** A change of what later jobs run by, tried by one worker. */
export class ChangeJob extends Job {
  #options;
  #changed;
  taken = false;

  /**
   * @param {import('../base/options.js').SparseOptions} options
   * @param {(info: import('../engine/engine.js').EngineInfo) => void} changed called first if it went
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

/** Brings a worker to the setting that another has changed to. If that fails the worker is useless. */
export class FollowJob extends ChangeJob {
  #discard;

  /**
   * @param {import('../base/options.js').SparseOptions} options
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

/** Limits of the texts that are estimated and sorted at once: that takes a few milliseconds. */
const WINDOW_TEXTS = 1024;
const WINDOW_LETTERS = 1 << 15;

/** Rows of some texts. */
export class EmbedJob extends Job {
  #request;
  #maxTokens;
  #onProgress;
  /** Texts before this one are estimated. */
  #next = 0;
  /**
   * Estimated texts that no worker has taken yet, the shortest first: the last one is taken next, so
   * that short ones at the end let workers finish together.
   * @type {{ place: number, tokens: number }[]}
   */
  #window = [];
  /** Estimated tokens of the window, and of all texts before `next`. */
  #windowTokens = 0;
  #estimated = 0;
  /** @type {number[]} places of the rows that are done */
  #finished = [];

  /**
   * @param {readonly string[]} texts
   * @param {import('../../types/internal.js').EmbedHow} how
   */
  constructor(
    texts,
    { type = 'embed', options, dimensions, maxTokens, priority = 'auto', signal, onProgress },
  ) {
    super(signal);
    this.urgent = priority === 'auto' ? texts.length === 1 : priority === 'high';
    this.texts = texts;
    this.type = type;
    this.options = options;
    this.#maxTokens = maxTokens;
    this.#request = { type, options };
    /** Jobs of one kind may have texts in one task. */
    this.kind = JSON.stringify(this.#request);
    this.#onProgress = onProgress;
    this.rows = takeMemory(
      `${texts.length} rows of ${dimensions} values`,
      () => new Rows(texts.length, dimensions),
    );
    this.#fillWindow();
  }

  get waiting() {
    return this.texts.length - this.#next + this.#window.length;
  }

  /** Estimated tokens of the texts that no worker has taken yet. */
  get tokensLeft() {
    const mean = this.#estimated / Math.max(this.#next, 1);
    return this.#windowTokens + Math.ceil(mean * (this.texts.length - this.#next));
  }

  finishEmpty() {
    this.finish(this.rows);
  }

  /**
   * Estimates and sorts the next texts. All texts at once would keep a page from responding.
   */
  #fillWindow() {
    const first = this.#next;
    const end = Math.min(first + WINDOW_TEXTS, this.texts.length);
    let letters = 0;
    while (this.#next < end && letters < WINDOW_LETTERS) {
      const text = this.texts[this.#next];
      const tokens = estimateTokens(text, this.#maxTokens);
      letters += text.length;
      this.#window.push({ place: this.#next++, tokens });
      this.#windowTokens += tokens;
    }
    this.#estimated += this.#windowTokens;
    // Equally long texts are taken in their order.
    this.#window.sort((a, b) => a.tokens - b.tokens || b.place - a.place);
  }

  /**
   * @param {number} budget
   * @returns {Task}
   */
  take(budget) {
    const places = /** @type {number[]} */ ([]);
    let tokens = 0;
    do {
      const { place, tokens: more } = /** @type {{ place: number, tokens: number }} */ (
        this.#window.pop()
      );
      places.push(place);
      tokens += more;
    } while (
      this.#window.length > 0 &&
      tokens + this.#window[this.#window.length - 1].tokens <= budget
    );
    this.#windowTokens -= tokens;
    if (this.#window.length === 0) this.#fillWindow();
    const texts = places.map((place) => this.texts[place]);
    return {
      job: this,
      request: { ...this.#request, texts },
      done: (values) => this.#place(places, values),
    };
  }

  /**
   * Copies the rows of a chunk to the places of their texts.
   * @param {number[]} places
   * @param {Float32Array} values
   */
  #place(places, values) {
    const rows = this.rows;
    const size = rows.dimensions;
    // Jest has modules in a realm of their own, where the worker's Float32Array is another.
    if (!ArrayBuffer.isView(values) || values.length !== places.length * size) {
      throw new WispError('worker', 'a worker sent a reply that is not the rows of its texts');
    }
    places.forEach((place, i) => rows.set(values.subarray(i * size, (i + 1) * size), place * size));
    this.#finished.push(...places);
    const done = this.#finished.length;
    this.#onProgress?.({ done, total: rows.count });
    if (done === rows.count) this.finish(rows);
  }

  /**
   * The error has the rows that are done. Another job may fail with the same one.
   * @param {unknown} error
   */
  fail(error) {
    if (error instanceof WispError && !this.settled && this.#finished.length > 0) {
      const { code, message, name } = error;
      const finished = this.#finished.sort((a, b) => a - b);
      error = Object.assign(new WispError(code, message, error), {
        name,
        rows: this.rows,
        finished,
      });
    }
    super.fail(error);
  }
}

/**
 * Makes one task of the single texts of several jobs, whose options are equal. A message for each of
 * them would take longer than the computing.
 * @param {EmbedJob[]} jobs
 * @returns {Task}
 */
export function gather(jobs) {
  const parts = jobs.map((job) => job.take(Infinity));
  return {
    job: {
      get settled() {
        return jobs.every((job) => job.settled);
      },
      fail: (error) => jobs.forEach((job) => job.fail(error)),
    },
    request: { ...parts[0].request, texts: parts.flatMap(({ request }) => request.texts) },
    done(values) {
      const size = values.length / parts.length;
      parts.forEach((part, i) => complete(part, values.subarray(i * size, (i + 1) * size)));
    },
    parts,
  };
}

/**
 * Gives a task its result, unless its job does not want it any more.
 * @param {Task} task
 * @param {unknown} value
 */
export function complete(task, value) {
  if (task.job.settled) return;
  try {
    task.job.onDone?.(value);
    task.done(value);
  } catch (error) {
    task.job.fail(error); // a progress callback threw, or the reply is malformed
  }
}

/** [CLS] and [SEP]. */
const SPECIAL_TOKENS = 2;

/** English words of more letters than this tend to be more than one token. */
const LETTERS_PER_TOKEN = 6;

/**
 * Estimates the number of tokens of a text, at most `most`, for dividing work. Only the workers have a
 * tokenizer, and asking them first would cost more than an uneven chunk.
 * @param {string} text
 * @param {number} most
 * @returns {number}
 */
export function estimateTokens(text, most) {
  let tokens = SPECIAL_TOKENS;
  let letters = 0; // in the word so far
  for (let i = 0; i < text.length && tokens < most; i++) {
    const code = text.charCodeAt(i);
    if (code <= 0x20) {
      letters = 0;
    } else if (isOneToken(code)) {
      tokens++;
      letters = 0;
    } else {
      if (letters % LETTERS_PER_TOKEN === 0) tokens++;
      letters++;
    }
  }
  return Math.min(tokens, most);
}

/**
 * Returns whether a character is ASCII punctuation or of a script written without spaces.
 * @param {number} code a UTF-16 unit
 */
function isOneToken(code) {
  if (code < 0x80) return !isLetterOrDigit(code);
  return code >= 0x2e80;
}

/** @param {number} code below 0x80 */
function isLetterOrDigit(code) {
  const lower = code | 0x20;
  return (lower >= 0x61 && lower <= 0x7a) || (code >= 0x30 && code <= 0x39);
}
