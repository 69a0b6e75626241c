// SPDX-License-Identifier: Apache-2.0
// wisp-engine/search, for TypeScript 5.2 and later.
import type { CallOptions, Embedder, Rows, WispErrorCode } from './index.js';

export { WispError } from './index.js';
export type { CallOptions, Embedder, Rows, WispErrorCode };

export type Vector = Float32Array | Float64Array | readonly number[];

/** An embedder is needed only for texts. */
type MaybeEmbedder = Pick<Embedder, 'embed' | 'dimensions'> | null | undefined;

export interface SimilarityOptions extends CallOptions {
  /** The prompt of texts, as in embed. */
  prompt?: string | undefined;
}

export interface SearchOptions extends SimilarityOptions {
  /** The embeddings that are searched: of embed, one after the other in a Float32Array, or an array of vectors. */
  rows: Rows | Float32Array | readonly Vector[];
  /** The most matches. Default: 10. */
  k?: number | undefined;
  /** Values of a row, for a plain Float32Array. Default: those of the query. */
  dimensions?: number | undefined;
}

export interface Match {
  /** The row's number, from 0. */
  index: number;
  /** The cosine of the row and the query. */
  score: number;
}

/**
 * Resolves to the cosine of two texts or vectors, from -1 to 1; 0 if a vector is of zeros. A text beside
 * a vector of fewer dimensions is cut to those.
 */
export function similarity(
  embedder: MaybeEmbedder,
  a: string | Vector,
  b: string | Vector,
  options?: SimilarityOptions,
): Promise<number>;

/**
 * Resolves to the k rows most similar to a text or vector, the best first, equal ones in the order of their
 * indices; to all if there are fewer. All rows are compared. A row with a NaN is not a match.
 */
export function search(
  embedder: MaybeEmbedder,
  query: string | Vector,
  options: SearchOptions,
): Promise<Match[]>;
