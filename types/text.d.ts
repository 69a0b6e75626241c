// SPDX-License-Identifier: Apache-2.0
// wisp-engine/text, for TypeScript 5.2 and later.
import type { CallOptions, EmbedOptions, Embedder, WispErrorCode } from './index.js';

export { WispError } from './index.js';
export type { CallOptions, EmbedOptions, Embedder, WispErrorCode };

export interface StreamOptions extends EmbedOptions, CallOptions {
  /** The most texts that are under way: read from the source and not handed out yet. Default: 1024. */
  ahead?: number | undefined;
  /** low, the default: single texts of other calls go first. */
  priority?: 'auto' | 'high' | 'low' | undefined;
}

export interface FieldOptions extends StreamOptions {
  /** The property of the source's objects that is the text. */
  field: string;
}

/** The embedding of one item of a source. */
export interface StreamedRow<Item> {
  /** The item's place in the source, from 0. */
  index: number;
  /** The item as the source gave it. */
  item: Item;
  /** A copy: it may be kept, changed and transferred. */
  row: Float32Array;
}

/** A source that embedStream reads. */
export type Source<Item> =
  | Iterable<Item>
  | AsyncIterable<Item>
  | { getReader(): { read(): Promise<any>; cancel(): Promise<void> } };

/**
 * Embeds the texts of a source and gives their rows in order. It reads only while fewer than `ahead` texts
 * are under way, so a source may be longer than memory.
 *
 * Leaving the loop, aborting and any error stop the work and close the source. What the source throws is
 * passed on unchanged after the rows of the items before it. Throws if an option is wrong.
 */
export function embedStream(
  embedder: Pick<Embedder, 'embed'>,
  source: Source<string>,
  options?: StreamOptions,
): AsyncIterableIterator<StreamedRow<string>>;
export function embedStream<Item extends object>(
  embedder: Pick<Embedder, 'embed'>,
  source: Source<Item>,
  options: FieldOptions,
): AsyncIterableIterator<StreamedRow<Item>>;

export interface ChunkOptions extends CallOptions {
  /**
   * The most tokens of a chunk, special tokens included. Default: the model's most, info().maxTokens. A
   * prompt takes tokens of it too.
   */
  tokens?: number | undefined;
  /** A chunk begins with the last sentences of the one before, as many as have at most so many tokens. */
  overlap?: number | undefined;
  /** The language of the text, such as 'de', for the borders of sentences. Default: the environment's. */
  locale?: string | undefined;
}

/** A part of a text: text.slice(start, end), offsets in UTF-16 units. */
export interface Chunk {
  text: string;
  start: number;
  end: number;
  /** Special tokens included. */
  tokens: number;
}

/**
 * Divides a text into chunks of at most `tokens` tokens, at borders of sentences. A sentence that has more
 * is divided between words, and a word that has more between characters. Together the chunks are the whole
 * text, white space included. An empty text has none.
 */
export function chunk(
  embedder: Pick<Embedder, 'countTokens' | 'info'>,
  text: string,
  options?: ChunkOptions,
): Promise<Chunk[]>;
