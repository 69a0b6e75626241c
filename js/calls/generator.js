// SPDX-License-Identifier: Apache-2.0
import { WispError, cancelled, throwIfAborted } from '../base/errors.js';
import { checkOption, checkOptions, checkString, wrong } from '../base/options.js';
import {
  BATCH_OPTIONS,
  BEAM_OPTIONS,
  CHAT_OPTIONS,
  CONVERSATION_OPTIONS,
  DETOKENIZE_OPTIONS,
  GENERATE_OPTIONS,
  TEXT_OPTIONS,
} from '../base/text-options.js';
import { OneTaskJob } from './job.js';
import { LoadedModel } from './load.js';
import { conversationOf, jsonOf } from './conversation.js';
import { inSlices, oneTask } from '../platform/slices.js';
import { WriteJob } from './write-job.js';

/** @typedef {import('../../types/generate.js').GenerateOptions} GenerateOptions */
/** @typedef {import('../../types/generate.js').Token} Token */

/** Bounds of a token id. */
const ID = { is: 'whole', least: 0, most: 2 ** 31 - 1 };

/** A search for texts. Its task can be stopped, though it gives nothing before it is done. */
class SearchJob extends OneTaskJob {
  take() {
    return { ...super.take(), part() {} };
  }
}

/** A text that is being written. */
class Generation {
  #job;

  /** @param {WriteJob} job */
  constructor(job) {
    this.#job = job;
  }

  /** Gives the text piece by piece. Leaving the loop stops the writing. */
  [Symbol.asyncIterator]() {
    return this.#job.tokens(({ text }) => text);
  }

  /** Gives each token with its id. */
  tokens() {
    return this.#job.tokens();
  }

  /** @returns {Promise<string>} the whole text */
  async text() {
    return (await this.result()).text;
  }

  /** @returns {Promise<import('../../types/generate.js').GenerationResult>} */
  async result() {
    return (await this.#job.promise)[0];
  }
}

/** Texts that are being written at once. */
class BatchGeneration {
  #job;

  /** @param {WriteJob} job */
  constructor(job) {
    this.#job = job;
  }

  /**
   * Gives the tokens of all texts as they come, and then throws if one has failed. Leaving the loop stops the
   * writing.
   */
  [Symbol.asyncIterator]() {
    return this.#job.tokens(
      (token) => ({ index: 0, ...token }),
      (results) => throwFailure(results),
    );
  }

  /** @returns {Promise<string[]>} the whole texts. Rejects if one has failed, when the others have ended */
  async texts() {
    const results = await this.results();
    throwFailure(results);
    return results.map(({ text }) => text);
  }

  /** @returns {Promise<import('../../types/generate.js').GenerationResult[]>} */
  async results() {
    return this.#job.promise;
  }
}

/**
 * Throws the error of the first text that has failed, with what became of all.
 * @param {import('../../types/generate.js').GenerationResult[]} results
 */
function throwFailure(results) {
  const index = results.findIndex(({ error }) => error);
  if (index < 0) return;
  const { code, message, field } = /** @type {WispError} */ (results[index].error);
  const error = new WispError(code, `prompts[${index}]: ${message}`, { field });
  throw Object.assign(error, { results });
}

/** A model that continues texts. Made by Generator.load. */
export class BaseGenerator extends LoadedModel {
  #pool;
  #languages;

  /** By this generate.cjs recognises a generator without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'Generator';
  }

  /**
   * @param {import('../../types/internal.js').Loaded} loaded
   * @param {() => Promise<WebAssembly.Module | undefined>} languages compiles the module that reads languages
   */
  constructor(loaded, languages) {
    super(loaded);
    this.#pool = loaded.pool;
    this.#languages = languages;
  }

  /**
   * Begins to continue the prompt, when the calls before are done. Throws if an option is wrong; what
   * goes wrong later rejects what the caller awaits of the text.
   * @param {string} prompt
   * @param {GenerateOptions} [options]
   * @returns {Generation}
   */
  generate(prompt, options = {}) {
    checkString(prompt, 'prompt');
    checkOptions(options, GENERATE_OPTIONS);
    return new Generation(this.#write([[prompt, checkText(options)]], options));
  }

  /**
   * Begins to continue several prompts at once. Each may be an object with options of its own.
   * @param {readonly (string | import('../../types/generate.js').BatchPrompt)[]} prompts
   * @param {import('../../types/generate.js').BatchOptions} [options]
   * @returns {BatchGeneration}
   */
  generateBatch(prompts, options = {}) {
    checkOptions(options, BATCH_OPTIONS);
    const { atOnce, ...common } = options;
    if (!Array.isArray(prompts)) throw wrong('prompts', 'not an array');
    // map would skip holes.
    const texts = Array.from(prompts, (each, i) => {
      const { prompt, ...own } = typeof each === 'string' ? { prompt: each } : { ...each };
      checkString(prompt, `prompts[${i}]`);
      checkOptions(own, TEXT_OPTIONS); // one signal is of all texts
      return [prompt, checkText({ ...common, ...own })];
    });
    return new BatchGeneration(this.#write(texts, common, atOnce));
  }

  /** @returns {import('../../types/generate.js').GeneratorInfo} */
  info() {
    return /** @type {any} */ (super.info());
  }

  /**
   * Begins to reply to a conversation, whose last message is the user's. Otherwise as generate. A longer
   * conversation is read from where it differs from the last one. Of very many messages those that do not fit a task of
   * 4 ms are read in later ones, and what is wrong in them rejects.
   * @param {readonly import('../../types/generate.js').Message[]} messages
   * @param {import('../../types/generate.js').ChatOptions} [options]
   * @returns {Generation}
   */
  chat(messages, options = {}) {
    checkOptions(options, CHAT_OPTIONS);
    const steps = conversationOf(messages, options);
    const read = oneTask(steps);
    const own = Object.entries(options).filter(([name]) => !(name in CONVERSATION_OPTIONS));
    const text = { ...checkText(Object.fromEntries(own)), thinking: options.thinking };
    const conversation = read ? read.value : inSlices(steps, options.signal);
    return new Generation(this.#write([['', text, conversation]], options));
  }

  /**
   * @param {any[][]} texts each a prompt, checked options, and perhaps a conversation, which may be a promise of one
   * @param {GenerateOptions} options
   * @param {number} [atOnce]
   */
  #write(texts, { signal }, atOnce) {
    const job = new WriteJob(
      texts.map(([prompt, options, conversation]) => ({ prompt, options, conversation })),
      signal,
      atOnce,
      texts.some(needsLanguages) ? this.#languages : undefined,
    );
    if (signal?.aborted) job.fail(cancelled(signal));
    void this.#pool.submit(job);
    return job;
  }

  /**
   * Resolves to the likeliest texts that continue the prompt, the best first.
   * @param {string} prompt
   * @param {import('../../types/generate.js').BeamOptions} [options]
   * @returns {Promise<import('../../types/generate.js').BeamText[]>}
   */
  async beamSearch(prompt, options = {}) {
    checkString(prompt, 'prompt');
    checkOptions(options, BEAM_OPTIONS);
    const { signal, beams = 4, maxTokens = 0, lengthPenalty = 1, stopTokens = [] } = options;
    const stopIds = idsOf(stopTokens, 'stopTokens');
    const request = {
      type: 'beams',
      prompt,
      beams,
      maxTokens: maxTokens ?? 0,
      lengthPenalty,
      stopIds,
    };
    throwIfAborted(signal);
    return this.#pool.submit(new SearchJob(request, signal));
  }

  /**
   * Resolves to the log-probabilities of the tokens from `first` on, each given all before it. How well
   * the model predicts a text is the mean of those.
   * @param {string | ArrayLike<number>} text or its token ids
   * @param {import('../../types/generate.js').ScoreOptions} [options]
   * @returns {Promise<Float32Array>}
   */
  async score(text, options = {}) {
    checkOptions(options, ['signal', 'first']);
    const { first = 1, signal } = options;
    if (!(Number.isInteger(first) && first >= 1)) {
      throw wrong('first', `${first} is not a whole number from 1`);
    }
    return this.#ask({ type: 'score', text: tokensOf(text), first }, signal);
  }

  /**
   * Resolves to the text of token ids.
   * @param {ArrayLike<number>} ids
   * @param {import('../../types/index.js').CallOptions & { continues?: boolean }} [options]
   * @returns {Promise<string>}
   */
  async detokenize(ids, options = {}) {
    checkOptions(options, DETOKENIZE_OPTIONS);
    const { continues = false, signal } = options;
    return this.#ask({ type: 'detokenize', ids: idsOf(ids, 'ids'), continues }, signal);
  }

  /**
   * Resolves to the logits that follow each token: a row of vocabularySize values for each.
   * @param {string | ArrayLike<number>} text or its token ids
   * @param {import('../../types/index.js').CallOptions} [options]
   * @returns {Promise<Float32Array>}
   */
  async logits(text, options = {}) {
    checkOptions(options, ['signal']);
    return this.#ask({ type: 'logits', text: tokensOf(text) }, options.signal);
  }

  /**
   * Resolves to what the worker has computed of its last texts, as bytes for loadState.
   * @param {import('../../types/index.js').CallOptions} [options]
   * @returns {Promise<Uint8Array>}
   */
  async saveState(options = {}) {
    checkOptions(options, ['signal']);
    this.#checkAlone();
    return this.#ask({ type: 'save' }, options.signal);
  }

  /**
   * Loads such bytes: a text that continues one of theirs is read from where it differs.
   * @param {Uint8Array} state
   * @param {import('../../types/index.js').CallOptions} [options]
   * @returns {Promise<void>}
   */
  async loadState(state, options = {}) {
    checkOptions(options, ['signal']);
    this.#checkAlone();
    // A detached array has no bytes.
    if (!(state instanceof Uint8Array && state.length > 0))
      throw wrong('state', 'not a Uint8Array');
    return this.#ask({ type: 'load', state: state.slice() }, options.signal);
  }

  /** With several workers nobody could tell whose texts these are. */
  #checkAlone() {
    const { workers } = this.info();
    if (workers > 1) throw wrong('workers', `${workers} workers, and a state is that of one`);
  }

  /**
   * @param {Record<string, unknown>} request
   * @param {AbortSignal | undefined} signal
   */
  async #ask(request, signal) {
    throwIfAborted(signal);
    return this.#pool.submit(new OneTaskJob(request, signal));
  }
}

/**
 * Checks a text of which the module would use only the part before a NUL.
 * @param {any} value
 * @param {string} field
 */
function checkWord(value, field) {
  checkString(value, field);
  if (value.includes('\0')) throw wrong(field, 'a text with a NUL');
}

/**
 * Checks what the module cannot tell: its numbers have fixed types. It checks their ranges itself.
 * Returns the options of a text in one form.
 * @param {GenerateOptions} options
 * @returns {import('../../types/protocol.js').WantedText['options']}
 */
function checkText(options) {
  /** @type {Record<string, any>} */
  const given = { ...options, signal: undefined };
  const { stopTokens = [], grammar, jsonSchema } = given;
  const stop = [given.stop === undefined ? [] : given.stop].flat();
  for (const text of stop) {
    checkWord(text, 'stop');
    if (!text) throw wrong('stop', 'empty');
  }
  if (grammar !== undefined && jsonSchema !== undefined) {
    throw wrong('jsonSchema', 'a grammar is also given; a text takes only one');
  }
  if (given.keep && !given.contextShift) throw wrong('keep', 'it requires contextShift');
  // Copies, because the text may wait, and the caller may change what is its own.
  return {
    ...given,
    seed: given.seed ?? Math.floor(Math.random() * 2 ** 32),
    stop,
    stopTokens: [...idsOf(stopTokens, 'stopTokens')],
    logitBias: biasOf(given.logitBias === undefined ? {} : given.logitBias),
    jsonSchema: schemaOf(jsonSchema),
  };
}

/**
 * Returns pairs of an id and what is added to its logit.
 * @param {any} given an object or a Map
 * @returns {[number, number][]}
 */
function biasOf(given) {
  const isMap = typeof given?.[Symbol.iterator] === 'function';
  if (typeof given !== 'object' || given === null || (isMap && !(given instanceof Map))) {
    throw wrong('logitBias', 'neither an object nor a Map');
  }
  return [...(isMap ? given : Object.entries(given))].map(([key, value]) => {
    const id = typeof key === 'string' && !/^\d+$/.test(key) ? NaN : Number(key);
    checkOption(id, 'logitBias', ID);
    checkOption(value ?? null, 'logitBias', { is: 'number' });
    return [id, value];
  });
}

/**
 * Returns a JSON Schema as text.
 * @param {unknown} schema
 * @returns {string | undefined}
 */
function schemaOf(schema) {
  if (schema === undefined || typeof schema === 'string') return schema;
  return jsonOf(schema, 'jsonSchema');
}

/**
 * @param {ArrayLike<number>} ids
 * @param {string} name
 */
function idsOf(ids, name) {
  if (typeof ids !== 'object' || !Number.isInteger(ids?.length))
    throw wrong(name, 'not an array of token ids');
  for (let i = 0; i < ids.length; i++)
    if (!(Number.isInteger(ids[i]) && ids[i] >= ID.least && ids[i] <= ID.most))
      checkOption(ids[i] ?? NaN, `${name}[${i}]`, ID);
  return new Int32Array(ids);
}

/** Whether a text has messages, a grammar or a schema. @param {any[]} text */
const needsLanguages = ([, { grammar, jsonSchema }, conversation]) =>
  conversation !== undefined || grammar !== undefined || jsonSchema !== undefined;

/** @param {string | ArrayLike<number>} text or ids */
const tokensOf = (text) => (typeof text === 'string' ? text : idsOf(text, 'ids'));
