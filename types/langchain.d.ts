// SPDX-License-Identifier: Apache-2.0
// wisp-engine/langchain, for TypeScript 5.2 and later.
import type { CallOptions, Embedder } from './index.js';

export { WispError, type WispErrorCode } from './index.js';

export interface WispEmbeddingsOptions extends CallOptions {
  /** The prompt of texts that are searched for, as in embed. Default: the model's default prompt. */
  queryPrompt?: string | undefined;
  /** The prompt of texts that are searched. Default: the model's default prompt. */
  documentPrompt?: string | undefined;
  /** Keep this many leading values of each embedding, normalised again. */
  dimensions?: number | undefined;
}

/** An Embedder as LangChain.js' vector stores and retrievers take one: EmbeddingsInterface of @langchain/core. */
export class WispEmbeddings {
  constructor(embedder: Pick<Embedder, 'embed'>, options?: WispEmbeddingsOptions);
  /** Embeds texts that are searched. */
  embedDocuments(documents: string[]): Promise<number[][]>;
  /** Embeds a text that is searched for. */
  embedQuery(document: string): Promise<number[]>;
}
