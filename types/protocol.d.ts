// SPDX-License-Identifier: Apache-2.0
// The messages between a pool and its workers. A worker gets one request at a time, and answers each with one
// reply of the same id.
import type { EngineOptions } from './engine.js';
import type { GenerationResult, TextOptions, Token } from './generate.js';
import type { EmbedOptions, SparseOptions, Totals, WispErrorCode } from './index.js';

/**
 * A part of a buffer that all workers share. A message has the buffer and not a view of it: Deno takes
 * seconds to send a view.
 */
export interface SharedBytes {
  buffer: SharedArrayBuffer;
  at: number;
  size: number;
}

/**
 * A model of a page. The page lends the bytes to one worker after the other, and then lets go of them: who needs them
 * later reads them again, from where the page has them from. A model without the property is read by each worker, at
 * once.
 */
export interface LentModel {
  size: number;
  /** A Blob, which is passed by reference, or a URL in the state that stateOf of js/files/source.js names. */
  from: Blob | { url: string; state: string; integrity?: string | undefined };
  bytes?: ArrayBuffer | undefined;
}

/** A model on its way to workers. */
export type SharedModel = SharedBytes | LentModel;

export interface OpenRequest {
  id: number;
  type: 'open';
  module: WebAssembly.Module;
  model: SharedModel;
  options: EngineOptions;
}

export interface SparseRequest {
  id: number;
  type: 'sparse';
  options: SparseOptions;
}

export interface EmbedRequest {
  id: number;
  type: 'embed';
  texts: string[];
  options: EmbedOptions;
}

/** Answered by a Float32Array with a score of each text. */
export interface RankRequest {
  id: number;
  type: 'rank';
  texts: string[];
  options: { query: string };
}

/** Answered by a Float32Array with the number of tokens of each text. */
export interface CountRequest {
  id: number;
  type: 'count';
  texts: string[];
}

export interface TokenizeRequest {
  id: number;
  type: 'tokenize';
  text: string;
}

/** A text to write, with options that have been checked. */
export interface WantedText {
  prompt: string;
  /** In place of the prompt: a conversation, as JSON for C. */
  conversation?: Uint8Array | undefined;
  options: Omit<TextOptions, 'seed' | 'stop' | 'stopTokens' | 'logitBias' | 'jsonSchema'> & {
    seed: number;
    stop: string[];
    stopTokens: number[];
    logitBias: [number, number][];
    jsonSchema?: string | undefined;
  };
}

export interface WriteRequest {
  id: number;
  type: 'write';
  texts: WantedText[];
  atOnce?: number | undefined;
  /** wisp-languages.wasm, if a text needs it. */
  languages?: WebAssembly.Module | undefined;
}

export interface BeamsRequest {
  id: number;
  type: 'beams';
  prompt: string;
  beams: number;
  maxTokens: number;
  lengthPenalty: number;
  stopIds: Int32Array;
}

export interface LogitsRequest {
  id: number;
  type: 'logits';
  text: string | Int32Array;
}

export interface ScoreRequest {
  id: number;
  type: 'score';
  text: string | Int32Array;
  first: number;
}

export interface SaveRequest {
  id: number;
  type: 'save';
}

export interface LoadRequest {
  id: number;
  type: 'load';
  state: Uint8Array;
}

export interface DetokenizeRequest {
  id: number;
  type: 'detokenize';
  ids: Int32Array;
  continues: boolean;
}

/** Stops the texts that are being written, or the search. The only request that comes while another is answered, and has no reply. */
export interface StopRequest {
  type: 'stop';
}

export type Request =
  | OpenRequest
  | SparseRequest
  | EmbedRequest
  | RankRequest
  | CountRequest
  | TokenizeRequest
  | WriteRequest
  | BeamsRequest
  | LogitsRequest
  | ScoreRequest
  | SaveRequest
  | LoadRequest
  | DetokenizeRequest;

/** How an engine opens a model of which only the beginning is there. */
export interface ColdOptions {
  /** Bytes of the whole file. */
  size: number;
  /** Ranges with at most so many bytes between are asked for as one. */
  gap: number;
  /** Compute without absent neurons. */
  skip: boolean;
  /** The bytes that the model may take in the module's memory; undefined: no limit. */
  memory: number | undefined;
  /** Report the neurons of each layer. */
  watch: boolean;
  /** And of each of the first so many tokens of a batch. */
  tokens: number;
}

/** The neurons of one layer in a worker's engine. Bit i % 8 of byte i / 8 of a mask belongs to the neuron at place i. */
export interface LayerNeurons {
  neurons: number;
  /** Those at places below are always in memory. */
  hot: number;
  /** Where the file has the others, one row behind the other; 0 if there are none. */
  coldOffset: number;
  rowBytes: number;
  /** Those in the engine's memory. */
  present: Uint8Array;
  /** Those that the last batch has needed so far. */
  needed: Uint8Array;
  /** Those of each token, if that was asked for. */
  tokens: Uint8Array[];
}

/** Bytes of the file from `offset` on. */
export interface Piece {
  offset: number;
  bytes: Uint8Array<ArrayBuffer>;
}

/** Comes from a worker while it answers a request: its engine waits for these bytes. */
export interface Needs {
  type: 'needs';
  ranges: [start: number, end: number][];
  layers?: LayerNeurons[] | undefined;
}

/** The answer to that, which has no reply. */
export interface ProvideRequest {
  type: 'provide';
  pieces: Piece[];
  error?: PackedError;
}

/** Bytes that the worker has not asked for. It replies { type: 'taken' } when it has them. */
export interface OfferRequest {
  type: 'offer';
  pieces: Piece[];
}

/** Texts of a call that are not computed yet. */
export interface AheadTexts {
  texts: string[];
  prompt?: string | undefined;
}

/** Asks a worker that waits which token embeddings texts need; it answers Ahead, also while it waits. */
export interface AheadRequest {
  type: 'ahead';
  parts: AheadTexts[];
}

export interface Ahead {
  type: 'ahead';
  ranges: [start: number, end: number][];
}

/** Neurons of one worker's engine; counts are totals since it was opened. */
export interface ColdStats {
  neurons: number;
  hotNeurons: number;
  warmNeurons: number;
  /** Cold tokens whose embeddings were provided. */
  tokens: number;
  hits: number;
  misses: number;
  /** Groups of 64 neurons that were given up. */
  evictions: number;
  /** The least budget, and bytes of neurons: always in memory, cold ones in memory, and all cold ones. */
  memory: { least: number; hot: number; warm: number; cold: number };
  skipped: number;
  /** Ranges of the file that it was given, and their bytes. */
  reads: number;
  readBytes: number;
  /** Neurons that came before a text needed them; of these, those that a later text needed, or that were given up unused. */
  prefetched: number;
  prefetchedUsed: number;
  prefetchedWasted: number;
}

/** Totals of one worker since it was opened, and the memory it holds. */
export interface Usage extends Totals {
  memoryBytes: number;
}

export interface Done {
  id: number;
  type: 'done';
  /**
   * EngineInfo for open and sparse, Float32Array for embed, count, logits and score, Int32Array for tokenize, a string
   * for detokenize, Written for write, BeamText[] for beams, Uint8Array for save, nothing for load.
   */
  value: any;
  usage: Usage;
  /** For open: the bytes of a LentModel. */
  lent?: ArrayBuffer | undefined;
  /** Statistics of a worker whose model may lack its cold neurons. */
  cold?: ColdStats;
  /** Neurons that each text was computed without. */
  skipped?: Float64Array | undefined;
  layers?: LayerNeurons[] | undefined;
}

/** Tokens of texts that are being written, and the results so far. */
export interface Written {
  /** Those of several texts have the `index` of theirs. */
  pieces: (Token & { index?: number })[];
  /** The end is 'caller' until the text has ended. */
  results: (Omit<GenerationResult, 'text' | 'seed' | 'error'> & { error?: PackedError })[];
}

/** Comes before the reply. */
export interface Part {
  id: number;
  type: 'part';
  value: Written;
}

export interface Failed {
  id: number;
  type: 'failed';
  error: PackedError;
  fatal: boolean;
}

export type Reply = Done | Part | Failed;

/** An error in a form that structured clone keeps; it would lose the class and the code. */
export interface PackedError {
  code: WispErrorCode;
  message: string;
  field: string;
  cause?: { name: string; message: string; stack?: string | undefined } | undefined;
}
