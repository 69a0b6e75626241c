// SPDX-License-Identifier: Apache-2.0
// The messages between a pool and its workers. A worker gets one request at a time, and answers each with one
// reply of the same id.
import type { EngineOptions } from './engine.js';
import type { ChatTextOptions, GenerationResult, Message, Token } from './generate.js';
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

/** A model on its way to workers. A Blob is passed by reference and read by each worker. */
export type SharedModel = SharedBytes | Blob;

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

export interface WriteRequest {
  id: number;
  type: 'write';
  prompt: string | readonly Message[];
  options: ChatTextOptions & { noThinking?: boolean | undefined };
}

export interface LogitsRequest {
  id: number;
  type: 'logits';
  ids: Int32Array;
}

export interface ScoreRequest {
  id: number;
  type: 'score';
  ids: Int32Array;
  first: number;
}

export interface DetokenizeRequest {
  id: number;
  type: 'detokenize';
  ids: Int32Array;
}

/** Stops the text that is being written. The only request that comes while another is answered, and has no reply. */
export interface StopRequest {
  type: 'stop';
}

export type Request =
  | OpenRequest
  | SparseRequest
  | EmbedRequest
  | CountRequest
  | TokenizeRequest
  | WriteRequest
  | LogitsRequest
  | ScoreRequest
  | DetokenizeRequest;

/** Totals of one worker since it was opened, and the memory it holds. */
export interface Usage extends Totals {
  memoryBytes: number;
}

export interface Done {
  id: number;
  type: 'done';
  /**
   * EngineInfo for open and sparse, Float32Array for embed, count, logits and score, Int32Array for tokenize, a string
   * for detokenize, Written for write.
   */
  value: any;
  usage: Usage;
}

/** Tokens of a text that is being written, and the result so far. */
export interface Written {
  pieces: Token[];
  result: Omit<GenerationResult, 'text' | 'seed'>;
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
