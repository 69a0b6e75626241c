// SPDX-License-Identifier: Apache-2.0
// wisp-engine/generate, for TypeScript 5.2 and later.
/// <reference lib="esnext.disposable" />
import type {
  CallOptions,
  EmbedderStats,
  EngineInfo,
  LoadOptions,
  LoadProgress,
  ModelSource,
  SparseOptions,
  WispError,
  WispErrorCode,
} from './index.js';

export { WispError } from './index.js';
export type { CallOptions, LoadProgress, ModelSource, SparseOptions, WispErrorCode };

/**
 * As of Embedder.load, without the options of models by range and that of portable rows, which generators refuse. By
 * default there is one worker: each writes one text at a time.
 */
export interface GeneratorLoadOptions extends Omit<LoadOptions, 'cold' | 'memory' | 'portable'> {
  /**
   * Threads that compute a text, from 1 to 8, if workers share memory (Node, cross-origin isolated
   * pages). Default: one for each core, at most 4.
   */
  threads?: number | undefined;
}

/** How a text is written. Without any, each token is the most likely one. */
export interface TextOptions {
  /** The most tokens that are generated. Default: as many as the model's context has room for. */
  maxTokens?: number | undefined;
  /** Divides the logits. 0, the default: the most likely token is taken. */
  temperature?: number | undefined;
  /** Keep the k most likely tokens. 0: all. */
  topK?: number | undefined;
  /** Keep the fewest tokens whose probabilities reach this sum. 0: all. */
  topP?: number | undefined;
  /** Keep tokens at least this times as likely as the most likely one. */
  minP?: number | undefined;
  /** Keep the fewest tokens that reach this sum, from those of the expected information on. 0: all. */
  typicalP?: number | undefined;
  /** Apply the temperature after the steps above, as llama.cpp does, and not before. */
  temperatureLast?: boolean | undefined;
  /** Divides positive logits of tokens in the text, multiplies negative ones. */
  repetitionPenalty?: number | undefined;
  /** Is subtracted from the logits of tokens in the text. */
  presencePenalty?: number | undefined;
  /** Is subtracted as often as the token stands in the text. */
  frequencyPenalty?: number | undefined;
  /** The penalties count only so many last tokens. 0: all. */
  penaltyWindow?: number | undefined;
  /** Is added to the logits of tokens, by id. -Infinity: never. */
  logitBias?: Readonly<Record<number, number>> | ReadonlyMap<number, number> | undefined;
  /** A whole number from 0 that random numbers are made from. Default: another one for each text. */
  seed?: number | undefined;
  /** Texts that end the text and are not part of it. */
  stop?: string | readonly string[] | undefined;
  /** Tokens that end the text, as the model's own do. */
  stopTokens?: readonly number[] | undefined;
  /** GBNF that the text matches; one that ends early, as by maxTokens, begins a text that does. */
  grammar?: string | undefined;
  /** A JSON Schema, or its text: the text is JSON that is valid under it. Instead of `grammar`. */
  jsonSchema?: object | boolean | string | undefined;
  /** Also give the log-probability of each token and of so many most likely ones. */
  logprobs?: number | undefined;
  /**
   * Guess up to this many of the next tokens (at most 16) if the last ones stand in the text before, and compute them
   * together: the same text in fewer passes if it repeats what it reads. Default: 0.
   */
  drafts?: number | undefined;
  /**
   * If the model's context is full, drop the older half of the text and go on. Then a text without
   * `maxTokens` ends only if the model or the caller ends it, and a prompt may be longer than the context.
   */
  contextShift?: boolean | undefined;
  /** With contextShift: the first tokens of the prompt that are never dropped. */
  keep?: number | undefined;
}

/** How messages become a prompt. */
export interface ConversationOptions {
  /** For models whose file has no chat template: 'chatml', or 'plain', which is only the text of messages. */
  format?: string | undefined;
  /** A chat template in Jinja, instead of the model's own. */
  template?: string | undefined;
  /** What the model may call, as its template takes it: mostly `{ type: 'function', function: {...} }`. */
  tools?: readonly unknown[] | undefined;
  /** Documents, for templates that take some. */
  documents?: readonly unknown[] | undefined;
  /** Other variables of the template. */
  variables?: Readonly<Record<string, unknown>> | undefined;
  /** false lets a model reply without thinking first, if its template can ask for it (enable_thinking). */
  thinking?: boolean | undefined;
  /** The date that the template tells the model, such as '2026-11-26'. Default: now. */
  date?: Date | string | undefined;
}

export interface ChatOptions extends TextOptions, ConversationOptions, CallOptions {}

export interface BatchOptions extends GenerateOptions {
  /** How many texts are computed at a time. Default: 8. */
  atOnce?: number | undefined;
}

/** One of several prompts, with options that differ from those of all. */
export interface BatchPrompt extends TextOptions {
  prompt: string;
}

export interface BeamOptions extends CallOptions {
  /** Texts that are followed at a time, at most 64. Default: 4. */
  beams?: number | undefined;
  /** The most tokens of a text. Default: as many as the model's context has room for. */
  maxTokens?: number | undefined;
  /** Scores are logprob / (number of tokens) ^ lengthPenalty. Default: 1. */
  lengthPenalty?: number | undefined;
  /** Tokens that end a text, as the model's own do. */
  stopTokens?: readonly number[] | undefined;
}

/** A text that a beam search found. */
export interface BeamText {
  text: string;
  ids: number[];
  /** The sum of its tokens' log-probabilities, with that of the token that ended it. */
  logprob: number;
  score: number;
  end: 'token' | 'length' | 'context';
}

/** A message, with what else the model's template uses of it: tool_calls, reasoning_content and others. */
export interface Message {
  role: string;
  /** A text, or parts of which each is `{ type: 'text', text }` or what the template knows. */
  content?: string | readonly unknown[] | null | undefined;
  [name: string]: unknown;
}

export interface ScoreOptions extends CallOptions {
  /** The first token that is scored, from 1, the default. */
  first?: number | undefined;
}

export interface GenerateOptions extends TextOptions, CallOptions {}

/** The logarithm of a token's probability, before any step of sampling. */
export interface TokenLogprob {
  id: number;
  logprob: number;
}

export interface Token {
  /**
   * The text that this token adds; it may be empty, and hold that of tokens before it, because text
   * comes in whole characters and what may begin a stop text is held back.
   */
  text: string;
  /** -1: none, the rest of the text. */
  id: number;
  /** With the option `logprobs`. */
  logprob?: number;
  likely?: TokenLogprob[];
}

/** A token of one of several texts. */
export interface BatchToken extends Token {
  /** That of the prompt. */
  index: number;
}

export interface GenerationResult {
  text: string;
  /**
   * Why the text ended. token: the model ended it. stop: a stop text. length: maxTokens. context: the
   * model's context is full. caller: the loop was left. grammar: it lets nothing follow. error: of
   * several texts this one could not be generated.
   */
  end: 'token' | 'stop' | 'length' | 'context' | 'caller' | 'grammar' | 'error';
  /** Why, with the end 'error'. */
  error?: WispError;
  /** Without those that contextShift dropped before the first token. */
  promptTokens: number;
  /** Tokens of the prompt that the worker had read for the text before. */
  reusedTokens: number;
  /** Generated, without the one that ended the text. */
  tokens: number;
  /** Spent on the prompt, and on the text. */
  promptSeconds: number;
  seconds: number;
  /** Tokens of prompt and text that contextShift dropped. */
  droppedTokens: number;
  /** The seed in use, which gives the same text again. */
  seed: number;
  /** Of `chat` with tools, if the reply calls some: the message that it is, with `tool_calls`, as `messages` takes it. */
  message?: Message | undefined;
}

/**
 * A text that is being written. Iterating gives it piece by piece; leaving the loop stops the writing.
 * Several may iterate, each from the beginning.
 */
export interface Generation extends AsyncIterable<string> {
  [Symbol.asyncIterator](): AsyncIterableIterator<string>;
  /** Gives each token with its id. */
  tokens(): AsyncIterableIterator<Token>;
  /** Resolves to the whole text. */
  text(): Promise<string>;
  /** Resolves to the whole text, why it ended, and what it took. */
  result(): Promise<GenerationResult>;
}

/**
 * Texts that are being written at once. Iterating gives their tokens as they come; leaving stops all. A text
 * that fails by its own prompt or options leaves the others alone: iterating and texts() throw its error when
 * these have ended, with all `results`.
 */
export interface BatchGeneration extends AsyncIterable<BatchToken> {
  [Symbol.asyncIterator](): AsyncIterableIterator<BatchToken>;
  /** Resolves to the whole texts, in the order of the prompts. */
  texts(): Promise<string[]>;
  results(): Promise<GenerationResult[]>;
}

export interface TextEngineInfo extends EngineInfo {
  /** Threads that compute a text. */
  threads: number;
  /** The template by which messages become a prompt; undefined if the model's file has none. */
  chatTemplate: string | undefined;
  /** How keys and values are kept: the option cacheType, or what 'auto' stands for. */
  cacheType: 'f32' | 'f16' | 'int8';
}

export interface GeneratorInfo extends TextEngineInfo {
  modelBytes: number;
  /** 0: on the calling thread. */
  workers: number;
  sharedMemory: boolean;
  backend: 'native' | 'wasm';
  reasons: {
    backend: string;
    build: string;
    workers: string;
    memory: string;
    /** If fewer threads started than there should be: why. */
    threads?: string;
  };
}

/** A model that continues texts. */
export class Generator {
  private constructor();
  /** Loads a model and starts the worker. If anything fails, nothing stays open. */
  static load(source?: ModelSource, options?: GeneratorLoadOptions): Promise<Generator>;
  /** In Node: lets go of the model that stays for the next load when nothing uses it. Pages keep none. */
  static releaseModels(): void;
  /**
   * Begins to continue the prompt, when the calls before are done. Throws if an option is wrong; what
   * goes wrong later rejects what the caller awaits of the text.
   */
  generate(prompt: string, options?: GenerateOptions): Generation;
  /**
   * Begins to reply to a conversation, whose last message is the user's. Otherwise as generate. A longer
   * conversation is read from where it differs from the last one.
   */
  chat(messages: readonly Message[], options?: ChatOptions): Generation;
  /**
   * Begins to continue several prompts at once, which costs less than one after the other: the weights
   * are read once for all. Each text has the bits that it has alone.
   */
  generateBatch(
    prompts: readonly (string | BatchPrompt)[],
    options?: BatchOptions,
  ): BatchGeneration;
  /** Resolves to the likeliest continuations of the prompt, the best first. */
  beamSearch(prompt: string, options?: BeamOptions): Promise<BeamText[]>;
  /** Resolves to the token ids of a text, as a prompt has them. */
  tokenize(text: string, options?: CallOptions): Promise<Int32Array>;
  /**
   * Resolves to the text of token ids: detokenize(await tokenize(text)) is the text. With `continues` the ids
   * continue a text, and keep the space before their first word.
   */
  detokenize(
    ids: ArrayLike<number>,
    options?: CallOptions & { continues?: boolean | undefined },
  ): Promise<string>;
  /**
   * Resolves to the logits that follow each token of a text, or of token ids: a row of vocabularySize
   * values for each.
   */
  logits(text: string | ArrayLike<number>, options?: CallOptions): Promise<Float32Array>;
  /**
   * Resolves to the log-probabilities of the tokens of a text, or of token ids, from `first` on, each
   * given all before it.
   */
  score(text: string | ArrayLike<number>, options?: ScoreOptions): Promise<Float32Array>;
  /**
   * Resolves to what the worker has computed of its last texts, as bytes: loadState of a generator with
   * the same model, now or later, lets a text that continues one of them begin if they differ. Only
   * with one worker.
   */
  saveState(options?: CallOptions): Promise<Uint8Array>;
  loadState(state: Uint8Array, options?: CallOptions): Promise<void>;
  setSparse(options?: SparseOptions): Promise<void>;
  info(): GeneratorInfo;
  stats(): EmbedderStats;
  /** Waits for the calls that are under way, then ends the worker. */
  close(): Promise<void>;
  /** Rejects the calls that are under way and ends the worker. */
  destroy(): Promise<void>;
  /** close(), for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}
