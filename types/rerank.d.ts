// SPDX-License-Identifier: Apache-2.0
// wisp-engine/rerank, for TypeScript 5.2 and later.
/// <reference lib="esnext.disposable" />
import type {
  BulkOptions,
  CallOptions,
  EmbedderInfo,
  EmbedderStats,
  LoadOptions,
  ModelSource,
} from './index.js';

export { WispError, type WispErrorCode } from './index.js';

/** As of Embedder.load, without the options of models by range and of threads. */
export type RerankerLoadOptions = Omit<LoadOptions, 'cold' | 'memory' | 'threads'>;

export interface RankOptions extends BulkOptions {
  /** Give so many of the best. Default: all. */
  topK?: number | undefined;
  /** Give the texts, too. */
  returnDocuments?: boolean | undefined;
}

export interface RankedDocument {
  /** Its place among the documents that were given. */
  index: number;
  score: number;
  /** If documents were asked for. */
  text?: string;
}

/** A cross-encoder, a ColBERT, or by the addon Qwen3-Reranker: it scores texts by how well they answer a query. */
export class Reranker {
  private constructor();
  /**
   * Loads a model and starts the workers. If anything fails, nothing stays open. A model that does not score pairs of texts
   * is refused ('unsupported').
   */
  static load(source: ModelSource, options?: RerankerLoadOptions): Promise<Reranker>;
  /** In Node: lets go of the model that stays for the next load when nothing uses it. Pages keep none. */
  static releaseModels(): void;
  /**
   * Resolves to a score for each text, of which more is better; most models give 0 to 1. The bits of a score do not depend
   * on other texts or the workers.
   */
  scores(query: string, texts: readonly string[], options?: BulkOptions): Promise<Float32Array>;
  /** Resolves to a score for each pair of a query and a text. */
  predict(
    pairs: readonly (readonly [query: string, text: string])[],
    options?: CallOptions,
  ): Promise<Float32Array>;
  /** Resolves to the documents, best first. Those with equal scores stay in their order. */
  rank(
    query: string,
    documents: readonly string[],
    options?: RankOptions,
  ): Promise<RankedDocument[]>;
  /** Resolves to the token ids of a text. */
  tokenize(text: string, options?: CallOptions): Promise<Int32Array>;
  info(): EmbedderInfo;
  stats(): EmbedderStats;
  /** Waits for the calls that are under way, then ends the workers. */
  close(): Promise<void>;
  /** Rejects the calls that are under way and ends the workers. */
  destroy(): Promise<void>;
  /** close(), for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}
