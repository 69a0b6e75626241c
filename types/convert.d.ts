// SPDX-License-Identifier: Apache-2.0
// wisp-engine/convert in Node, for TypeScript 5.2 and later.
import type { HubOptions } from './hub.js';
import type { LoadOptions, ModelSource } from './index.js';

export { WispError } from './index.js';

/** Options of a conversion, as `wisp convert` has them. */
export interface ConvertSettings {
  /** The type of weights. Default: as they are. */
  type?: 'f32' | 'f16' | 'q8_0' | 'q4_0' | undefined;
  /** The type of the token embeddings. Default: `type`. */
  embeddingType?: 'f32' | 'f16' | 'q8_0' | 'q4_0' | undefined;
  /** The model's name in the file. Default: that of its folder or repository. */
  name?: string | undefined;
  /** Remove what `wisp calibrate` added, and store plain matrices. */
  plain?: boolean | undefined;
  /** Store the weights of each feed-forward neuron side by side. */
  neurons?: boolean | undefined;
  /** In a calibrated model, the share of needed activations whose neurons stand at the beginning. */
  hot?: number | undefined;
  /** Or the bytes that those neurons may fill. */
  hotBytes?: number | undefined;
  /** The most frequent tokens whose embeddings stand there, too. */
  hotTokens?: number | undefined;
  /** The default sparsity of a calibrated model. */
  sparsity?: number | undefined;
}

export interface ConvertProgress {
  /** files: bytes that were fetched. tensors: how many are written. */
  phase: 'files' | 'tensors';
  loaded: number;
  total: number | undefined;
}

export interface ConvertOptions
  extends ConvertSettings, Pick<HubOptions, 'revision' | 'endpoint' | 'token' | 'cacheDir' | 'offline'> {
  /** Gives up. */
  signal?: LoadOptions['signal'];
  onProgress?: ((progress: ConvertProgress) => void) | undefined;
  /** Another URL of the module, or a compiled one. */
  wasm?: LoadOptions['wasm'];
  /** Another URL of the worker's script, or a function that starts a worker. */
  worker?: LoadOptions['worker'];
  /** Milliseconds that a browser may take to start the worker. Default: 60,000. */
  startTimeout?: number | undefined;
}

/**
 * A model: a Hugging Face folder (config.json, weights, the tokenizer) or a GGUF file, as a path (Node), a
 * URL, `hf:owner/name`, the files of `<input type="file" webkitdirectory>`, a FileSystemDirectoryHandle, an object
 * of files by their paths in the folder, a File, a Blob or bytes.
 */
export type ConvertSource =
  | ModelSource
  | Iterable<ModelSource>
  | ArrayLike<ModelSource>
  | { readonly kind: 'directory'; readonly name: string }
  | { readonly [path: string]: ModelSource };

/** Converts a model to a GGUF file, which has the bytes that `wisp convert` writes. */
export function convert(
  source: ConvertSource,
  options: ConvertOptions & {
    /** The file to write; it appears whole or not at all. Resolves to its path. */
    output: string;
    /** Replaces an existing file that is not a GGUF file, too. */
    force?: boolean | undefined;
  },
): Promise<string>;
export function convert(
  source: ConvertSource,
  options?: ConvertOptions & { output?: undefined },
): Promise<Uint8Array>;
