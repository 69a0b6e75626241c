// SPDX-License-Identifier: Apache-2.0
// wisp-engine/ai, for TypeScript 5.2 and later.
import type { EmbedOptions, Embedder } from './index.js';

export { WispError, type WispErrorCode } from './index.js';

type KnownSignal = typeof globalThis extends { AbortSignal: { prototype: infer Instance } }
  ? Instance
  : { readonly aborted: boolean; readonly reason?: any; addEventListener: any };

/** v4: ai 7. v3: ai 6, which refuses v4. */
export type SpecificationVersion = 'v3' | 'v4';

export interface EmbeddingModelOptions<Version extends SpecificationVersion> extends EmbedOptions {
  /** Default: 'v4'. */
  specificationVersion?: Version | undefined;
}

/** A model for embed() and embedMany() of the AI SDK: EmbeddingModelV4 or V3 of @ai-sdk/provider. */
export interface WispEmbeddingModel<Version extends SpecificationVersion> {
  readonly specificationVersion: Version;
  readonly provider: string;
  /** The model's name in its file. */
  readonly modelId: string;
  readonly maxEmbeddingsPerCall: number;
  readonly supportsParallelCalls: boolean;
  doEmbed(options: {
    values: string[];
    dimensions?: number;
    abortSignal?: KnownSignal;
    /** `wisp` may have prompt and dimensions. */
    providerOptions?: Record<string, Record<string, any>>;
    headers?: Record<string, string | undefined>;
  }): Promise<{
    embeddings: number[][];
    /** Counted before texts are truncated, without prompts. */
    usage: { tokens: number };
    warnings: never[];
  }>;
}

/** Returns an Embedder as the AI SDK takes a model. Calls may have other options in `providerOptions.wisp`. */
export function embeddingModel<Version extends SpecificationVersion = 'v4'>(
  embedder: Pick<Embedder, 'embed' | 'countTokens' | 'info'>,
  options?: EmbeddingModelOptions<Version>,
): WispEmbeddingModel<Version>;
