// SPDX-License-Identifier: Apache-2.0
import type { EmbedOptions, EngineInfo, OpenOptions, SparseOptions, Totals } from './index.js';

export type { OpenOptions };

export interface EngineOptions extends OpenOptions, SparseOptions {}

/**
 * A model that is read on demand. It is read while the engine opens. With `lasting` it is also read
 * later: the embeddings of tokens are then read when a text needs them and not kept in the engine's
 * memory. Shared bytes are lasting, because others hold them anyway.
 */
export interface ModelReader {
  size: number;
  read(offset: number, into: Uint8Array): void;
  lasting?: boolean | undefined;
  /** The buffer in which the bytes lie: threads of the engine read them, too, if it is shared. */
  buffer?: ArrayBufferLike;
  byteOffset?: number;
  length?: number;
}

export type ModelBytes = Uint8Array | ModelReader;

export interface EngineStats extends Totals {
  workspaceBytes: number;
}

/** One model in one WebAssembly instance. Every call runs to its end on the calling thread. */
export class Engine {
  /** `module` is a WebAssembly.Module. */
  static open(module: object, model: ModelBytes, options?: EngineOptions): Promise<Engine>;
  readonly dimensions: number;
  /** Bytes of the instance's memory. */
  readonly memoryBytes: number;
  info(): EngineInfo;
  stats(): EngineStats;
  /** Sets the share of neurons that the predictor skips, approximately. Default: the model's. */
  setSparsity(sparsity?: number): void;
  /**
   * Returns the text of a prompt, or undefined if the model has none of that name. Without a name
   * returns the default prompt, or '' if the model has none.
   */
  prompt(name?: string): string | undefined;
  /** Returns the token ids that the model computes with. Lone surrogates are read as U+FFFD. */
  tokenize(text: string): Int32Array;
  /** Returns the number of token ids that a text has before it is truncated. */
  countTokens(text: string): number;
  /** Returns a row of `dimensions` values for each text, one after the other. */
  embed(texts: readonly string[], options?: EmbedOptions): Float32Array;
  /** Frees the model and the instance. May be called more than once. */
  close(): void;
}
