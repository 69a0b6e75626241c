// SPDX-License-Identifier: Apache-2.0
// wisp-engine/pipeline, for TypeScript 5.2 and later.
import type { CallOptions, EmbedOptions, Embedder, LoadOptions, ModelSource } from './index.js';

export { WispError, type WispErrorCode } from './index.js';

export interface ExtractionOptions extends EmbedOptions, CallOptions {
  /** How the model pools its tokens: another one is refused ('unsupported'), and so is 'none', the default of transformers.js. */
  pooling: 'mean' | 'cls' | 'first_token';
  /** Whether embeddings have length 1. False, the default, is refused if the model's have it. */
  normalize?: boolean | undefined;
  /** Give a bit for each value, which is set if the value is above zero. */
  quantize?: boolean | undefined;
  /** The type of quantised values: binary, the default, gives int8, and ubinary uint8. */
  precision?: 'binary' | 'ubinary' | undefined;
}

/** Values as transformers.js gives them. */
export interface Tensor {
  readonly type: 'float32' | 'int8' | 'uint8';
  readonly data: Float32Array | Int8Array | Uint8Array;
  /** The number of embeddings, and the number of values of each. */
  readonly dims: number[];
  readonly size: number;
  readonly location: 'cpu';
  /** Part i, with one dimension less. */
  readonly [i: number]: Tensor | number;
  [Symbol.iterator](): IterableIterator<Tensor | number>;
  /** The values in nested arrays. */
  tolist(): any[];
  dispose(): void;
}

export interface FeatureExtractor {
  (texts: string | string[], options: ExtractionOptions): Promise<Tensor>;
  readonly task: 'feature-extraction';
  readonly embedder: Embedder;
  /** Closes the embedder. */
  dispose(): Promise<void>;
}

/**
 * Loads a model for embeddings, as transformers.js' pipeline does.
 *
 * `model` is what Embedder.load takes, the default model if it is null or absent, or an Embedder.
 */
export function pipeline(
  task: 'feature-extraction',
  model?: ModelSource | Embedder | null,
  options?: LoadOptions,
): Promise<FeatureExtractor>;
