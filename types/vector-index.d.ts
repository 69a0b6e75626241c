// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index, for TypeScript 5.2 and later. tests/js/types/ checks that js/ does what stands here.
import type { EmbedCallOptions } from './index.js';

export { WispError, type WispErrorCode } from './index.js';

type KnownURL = typeof globalThis extends { URL: { prototype: infer Instance } }
  ? Instance
  : { readonly href: string };

/** The part of an Embedder that an index needs. */
export interface IndexEmbedder {
  readonly dimensions: number;
  info(): { readonly name: string };
  embed(
    texts: string | readonly string[],
    options?: EmbedCallOptions,
  ): Promise<{ row(i: number): Float32Array }>;
}

export interface IndexOptions {
  /** int8, the default: a byte for each value and a scale for each vector. f32: four times as large. */
  kind?: 'int8' | 'f32' | undefined;
  /** Keep this many leading values of each embedding. Default: the model's. */
  dimensions?: number | undefined;
}

export interface IndexItem {
  /** Any text but ''. An item with an id that the index has replaces the old one. */
  id: string;
  /** A text that is embedded, and kept as the member `text` of the metadata. */
  text?: string | undefined;
  /** Instead of a text: finite numbers. */
  vector?: ArrayLike<number> | undefined;
  /** Any value that JSON can hold; with a text, an object. */
  metadata?: any;
}

export interface IndexMatch {
  id: string;
  /** The dot product, which is the cosine where both vectors are normalised; at most the largest float. */
  score: number;
  /** Undefined where the item has none. */
  metadata: any;
}

export interface IndexSearchOptions {
  /** Matches of a query. Default: 10. */
  k?: number | undefined;
  /** As that of Embedder.embed, for queries that are texts. */
  prompt?: string | undefined;
}

/** Vectors with ids, of which it finds the nearest: exactly, by computing all products. */
export class Index {
  /** Makes an empty index: for the embeddings of an embedder, or for vectors of any origin. */
  static create(embedder: IndexEmbedder, options?: IndexOptions): Promise<Index>;
  static create(options: IndexOptions & { dimensions: number }): Promise<Index>;
  /** Reads the bytes of toBytes, wisp_index_save or `wisp index`. */
  static open(bytes: ArrayBuffer | ArrayBufferView, embedder?: IndexEmbedder): Promise<Index>;
  /**
   * Reads an index from where `save` has written it: in Node a path or a file: URL, in browsers
   * 'opfs:NAME' or 'indexeddb:NAME'.
   */
  static load(from: string | KnownURL, embedder?: IndexEmbedder): Promise<Index>;
  private constructor();
  /** Vectors in the index. */
  readonly size: number;
  readonly dimensions: number;
  readonly kind: 'int8' | 'f32';
  /** The name of the model, or ''. */
  readonly model: string;
  add(
    items: IndexItem | readonly IndexItem[],
    options?: { prompt?: string | undefined },
  ): Promise<void>;
  /** Returns how many of the ids there were. */
  remove(ids: string | readonly string[]): number;
  has(id: string): boolean;
  /** Returns the metadata of an id. */
  get(id: string): any;
  ids(): IterableIterator<string>;
  search(query: string | ArrayLike<number>, options?: IndexSearchOptions): Promise<IndexMatch[]>;
  searchMany(
    queries: readonly (string | ArrayLike<number>)[],
    options?: IndexSearchOptions,
  ): Promise<IndexMatch[][]>;
  toBytes(): ArrayBuffer;
  /** Writes the index whole or not at all, also where the program ends meanwhile. */
  save(to: string | KnownURL): Promise<void>;
}
