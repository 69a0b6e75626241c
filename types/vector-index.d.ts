// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index, for TypeScript 5.2 and later. tests/js/types/ checks that js/ does what stands here.
import type { CallOptions, EmbedCallOptions, WispError } from './index.js';

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
  id: string | number;
  /** A text that is embedded, and kept as the member `text` of the metadata. */
  text?: string | undefined;
  /** Instead of a text: finite numbers. */
  vector?: ArrayLike<number> | undefined;
  /** Any value that JSON can hold; with a text, an object. */
  metadata?: any;
}

export interface IndexMatch {
  id: string;
  /** The dot product, which is the cosine if both vectors are normalised; at most the largest float. */
  score: number;
  /** Undefined if the item has none. */
  metadata: any;
  /** Why there are none, in an index of another program whose metadata of this row are malformed. */
  error?: WispError;
}

export interface IndexAddOptions extends CallOptions {
  /** As that of Embedder.embed. */
  prompt?: string | undefined;
}

export interface IndexSearchOptions extends CallOptions {
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
  static open(
    bytes: ArrayBuffer | ArrayBufferView,
    embedder?: IndexEmbedder,
    options?: CallOptions,
  ): Promise<Index>;
  /**
   * Reads an index from where `save` has written it: in Node a path or a file: URL, in browsers
   * 'opfs:NAME' or 'indexeddb:NAME'.
   */
  static load(
    from: string | KnownURL,
    embedder?: IndexEmbedder,
    options?: CallOptions,
  ): Promise<Index>;
  private constructor();
  /** Vectors in the index. */
  readonly size: number;
  readonly dimensions: number;
  readonly kind: 'int8' | 'f32';
  /** The name of the model, or ''. */
  readonly model: string;
  /**
   * Adds all items at once, or changes nothing where it rejects. Many are prepared in short tasks, between which others
   * run.
   */
  add(items: IndexItem | readonly IndexItem[], options?: IndexAddOptions): Promise<void>;
  /** Returns how many of the ids there were. */
  remove(ids: string | readonly (string | number)[]): number;
  has(id: string | number): boolean;
  /** Returns the metadata of an id. */
  get(id: string | number): any;
  ids(): IterableIterator<string>;
  search(query: string | ArrayLike<number>, options?: IndexSearchOptions): Promise<IndexMatch[]>;
  searchMany(
    queries: readonly (string | ArrayLike<number>)[],
    options?: IndexSearchOptions,
  ): Promise<IndexMatch[][]>;
  /** The bytes of the index, in one task: of a large index arrayBuffer keeps a page responsive. */
  toBytes(): ArrayBuffer;
  /** Resolves to the bytes that the index has now, which are made in short tasks. */
  arrayBuffer(options?: CallOptions): Promise<ArrayBuffer>;
  /**
   * Writes the index whole or not at all, also if the program ends meanwhile. Refuses to replace what
   * is not an index, and an index that was loaded from there or saved there and has been changed by
   * another program or tab since: its changes would be lost. `force` replaces either.
   */
  save(
    to: string | KnownURL,
    options?: CallOptions & { force?: boolean | undefined },
  ): Promise<void>;
}
