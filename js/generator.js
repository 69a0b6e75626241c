// SPDX-License-Identifier: Apache-2.0
import { cancelled, throwIfAborted } from './errors.js';
import { OneTaskJob } from './job.js';
import { LoadedModel } from './load.js';
import { checkOptions, checkString, wrong } from './options.js';
import { WriteJob } from './write-job.js';

/** @typedef {import('../types/generate.js').GenerateOptions} GenerateOptions */
/** @typedef {import('../types/generate.js').Token} Token */

const WHOLE = ['maxTokens', 'topK', 'penaltyWindow', 'logprobs'];
const NUMBERS = [
  ...['temperature', 'topP', 'minP', 'typicalP'],
  ...['repetitionPenalty', 'presencePenalty', 'frequencyPenalty'],
];
const OTHERS = ['signal', 'temperatureLast', 'logitBias', 'seed', 'stop', 'stopTokens'];
const TEXT_OPTIONS = [...WHOLE, ...NUMBERS, ...OTHERS];

/** A text that is being written. */
class Generation {
  #job;

  /** @param {WriteJob} job */
  constructor(job) {
    this.#job = job;
  }

  /** Gives the text piece by piece. Leaving the loop stops the writing. */
  async *[Symbol.asyncIterator]() {
    for await (const { text } of this.#job.tokens()) if (text) yield text;
  }

  /** Gives each token with its id. */
  tokens() {
    return this.#job.tokens();
  }

  /** @returns {Promise<string>} the whole text */
  async text() {
    return (await this.result()).text;
  }

  /** @returns {Promise<import('../types/generate.js').GenerationResult>} */
  result() {
    return this.#job.promise;
  }
}

/** A model that continues texts. Made by Generator.load. */
export class BaseGenerator extends LoadedModel {
  #pool;

  /** By this generate.cjs recognises a generator without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'Generator';
  }

  /** @param {import('../types/internal.js').Loaded} loaded */
  constructor(loaded) {
    super(loaded);
    this.#pool = loaded.pool;
  }

  /**
   * Begins to continue the prompt, when the calls before are done. Throws where an option is wrong; what
   * goes wrong later rejects what the caller awaits of the text.
   * @param {string} prompt
   * @param {GenerateOptions} [options]
   * @returns {Generation}
   */
  generate(prompt, options = {}) {
    checkString(prompt, 'prompt');
    checkOptions(options, TEXT_OPTIONS);
    return this.#write(prompt, options, {});
  }

  /** @returns {import('../types/generate.js').GeneratorInfo} */
  info() {
    return /** @type {any} */ (super.info());
  }

  /**
   * Begins to reply to a conversation, whose last message is the user's. Otherwise as generate. A longer
   * conversation is read from where it differs from the last one.
   * @param {readonly import('../types/generate.js').Message[]} messages
   * @param {import('../types/generate.js').ChatOptions} [options]
   * @returns {Generation}
   */
  chat(messages, options = {}) {
    checkMessages(messages);
    checkOptions(options, [...TEXT_OPTIONS, 'format', 'thinking']);
    const { format, thinking, ...others } = options;
    if (format !== undefined) checkString(format, 'format');
    const list = messages.map(({ role, content }) => ({ role, content }));
    return this.#write(list, others, { format, noThinking: thinking === false || undefined });
  }

  /**
   * @param {string | readonly import('../types/generate.js').Message[]} prompt
   * @param {GenerateOptions} options
   * @param {object} more options that are not of every text
   */
  #write(prompt, options, more) {
    const { signal } = options;
    const job = new WriteJob(prompt, { ...checkText(options), ...more }, signal);
    if (signal?.aborted) job.fail(cancelled(signal));
    void this.#pool.submit(job);
    return new Generation(job);
  }

  /**
   * Resolves to the log-probabilities of the ids from `first` on, each given all before it. How well the
   * model predicts a text is the mean of those.
   * @param {ArrayLike<number>} ids
   * @param {import('../types/generate.js').ScoreOptions} [options]
   * @returns {Promise<Float32Array>}
   */
  async score(ids, options = {}) {
    checkOptions(options, ['signal', 'first']);
    const { first = 1, signal } = options;
    throwIfAborted(signal);
    const list = idsOf(ids, 'ids');
    if (list.length < 2) throw wrong('ids', 'fewer than two token ids: none has one before it');
    if (!(Number.isInteger(first) && first >= 1 && first < list.length)) {
      throw wrong('first', `${first} is not a whole number from 1 to ${list.length - 1}`);
    }
    return this.#pool.submit(new OneTaskJob({ type: 'score', ids: list, first }, signal));
  }

  /**
   * Resolves to the text of token ids.
   * @param {ArrayLike<number>} ids
   * @param {import('../types/index.js').CallOptions} [options]
   * @returns {Promise<string>}
   */
  async detokenize(ids, options = {}) {
    return this.#ask('detokenize', ids, options);
  }

  /**
   * Resolves to the logits that follow each token: a row of vocabularySize values for each.
   * @param {ArrayLike<number>} ids
   * @param {import('../types/index.js').CallOptions} [options]
   * @returns {Promise<Float32Array>}
   */
  async logits(ids, options = {}) {
    return this.#ask('logits', ids, options);
  }

  /**
   * @param {string} type
   * @param {ArrayLike<number>} ids
   * @param {import('../types/index.js').CallOptions} options
   */
  #ask(type, ids, options) {
    checkOptions(options, ['signal']);
    const { signal } = options;
    throwIfAborted(signal);
    return this.#pool.submit(new OneTaskJob({ type, ids: idsOf(ids, 'ids') }, signal));
  }
}

/** @param {unknown} messages */
function checkMessages(messages) {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw wrong('messages', 'no array of messages { role, content }');
  }
  messages.forEach((message, i) => {
    checkString(message?.role, `messages[${i}].role`);
    checkString(message?.content, `messages[${i}].content`);
  });
}

/**
 * Checks what the module cannot tell: its numbers have fixed types. It checks their ranges itself.
 * Returns the options of a text in one form.
 * @param {GenerateOptions} options
 * @returns {import('../types/generate.js').TextOptions & { seed: number }}
 */
function checkText(options) {
  /** @type {Record<string, any>} */
  const given = { ...options, signal: undefined };
  for (const name of WHOLE) checkWhole(given[name], name, 2 ** 32 - 1);
  for (const name of NUMBERS) {
    const value = given[name];
    if (value !== undefined && typeof value !== 'number')
      throw wrong(name, `${value} is no number`);
  }
  checkWhole(given.seed, 'seed', Number.MAX_SAFE_INTEGER);
  const { stopTokens = [], logitBias = {} } = given;
  const stop = [given.stop === undefined ? [] : given.stop].flat();
  for (const text of stop) {
    checkString(text, 'stop');
    if (!text || text.includes('\0')) throw wrong('stop', 'a text that is empty or contains a NUL');
  }
  if (typeof logitBias !== 'object' || logitBias === null) throw wrong('logitBias', 'no object');
  for (const [id, value] of Object.entries(logitBias)) {
    checkWhole(Number(id), 'logitBias', 2 ** 31 - 1);
    if (typeof value !== 'number') throw wrong('logitBias', `${value} is no number`);
  }
  const seed = given.seed ?? Math.floor(Math.random() * 2 ** 32);
  const stopIds = [...idsOf(stopTokens, 'stopTokens')];
  // Copies, because the text may wait, and the caller may change what is its own.
  return { ...given, seed, stop, stopTokens: stopIds, logitBias: { ...logitBias } };
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {number} most
 */
function checkWhole(value, name, most) {
  if (value === undefined) return;
  if (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= most) return;
  throw wrong(name, `${value} is not a whole number from 0 to ${most}`);
}

/**
 * @param {ArrayLike<number>} ids
 * @param {string} name
 */
function idsOf(ids, name) {
  if (!Number.isInteger(ids?.length)) throw wrong(name, 'no array of token ids');
  for (let i = 0; i < ids.length; i++) checkWhole(ids[i] ?? NaN, `${name}[${i}]`, 2 ** 31 - 1);
  return Int32Array.from(ids);
}
