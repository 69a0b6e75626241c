// SPDX-License-Identifier: Apache-2.0
// wisp-engine/hub, for TypeScript 5.2 and later.
import type { LoadOptions, ModelSource } from './index.js';

export { WispError } from './index.js';

export interface HubOptions {
  /** A branch, tag or commit. Default: main. */
  revision?: string | undefined;
  /** The path of the GGUF file in the repository. Default: it, or the one that comes first by its type. */
  file?: string | undefined;
  /** The server. Default: HF_ENDPOINT in Node, else the Hugging Face Hub. */
  endpoint?: string | undefined;
  /** Default: in Node HF_TOKEN, or the file that `hf auth login` writes; '': none. */
  token?: string | undefined;
  /** In Node: the cache. Default: HF_HUB_CACHE, else hub in HF_HOME. */
  cacheDir?: string | undefined;
  /** Take what is stored, and ask no server. Default: in Node HF_HUB_OFFLINE, else false. */
  offline?: boolean | undefined;
  /** Gives up; what has come stays for the next time. */
  signal?: LoadOptions['signal'];
  /** Bytes that have come; `total` is undefined if the server does not tell. */
  onProgress?: ((progress: { loaded: number; total: number | undefined }) => void) | undefined;
}

/** A model in the cache of Node, or in the browser's store. */
export interface CachedModel {
  /** `hf:owner/name@commit/file`, or a URL. */
  name: string;
  /** For Embedder.load: the path in Node, a Blob in browsers; undefined if it is not complete. */
  source: ModelSource | undefined;
  bytes: number;
  /** false: a download that was not finished. */
  complete: boolean;
}

/**
 * Finds a model by its name, `[hf:]owner/name[@revision][/file.gguf]`: in the cache of huggingface_hub
 * (Node) or the browser's store, else on the Hub. Resolves to what Embedder.load and Generator.load take.
 */
export function fromHub(name: string, options?: HubOptions): Promise<ModelSource>;

/** Lists the models of the cache or store. */
export function listCached(options?: { cacheDir?: string | undefined }): Promise<CachedModel[]>;

/**
 * Deletes models: all, those of a repository or URL, or one by the name that listCached gives. Resolves
 * to the bytes that are free now.
 */
export function deleteCached(
  name?: string,
  options?: { cacheDir?: string | undefined },
): Promise<number>;
