// SPDX-License-Identifier: Apache-2.0
// The public API, for TypeScript 5.2 and later. tests/js/types/ checks that js/ does what stands here.
/// <reference lib="esnext.disposable" />

/**
 * A class of the environment, where the program's settings (lib.dom, @types/node) know it; else what
 * wisp needs of it.
 */
type Known<Name extends string, Otherwise> = typeof globalThis extends {
  [N in Name]: { prototype: infer Instance };
}
  ? Instance
  : Otherwise;

type KnownSignal = Known<
  'AbortSignal',
  { readonly aborted: boolean; readonly reason?: any; addEventListener: any }
>;
type KnownURL = Known<'URL', { readonly href: string }>;
type KnownBlob = Known<'Blob', { readonly size: number; stream(): any }>;
type KnownModule = typeof globalThis extends {
  WebAssembly: { Module: { prototype: infer Module } };
}
  ? Module
  : object;

/**
 * The model of Embedder.load: a path (in Node), a URL, a File or Blob, or bytes. Default: the model
 * of the package.
 */
export type ModelSource =
  | string
  | KnownURL
  | KnownBlob
  | ArrayBuffer
  | SharedArrayBuffer
  | ArrayBufferView;

/** Which neurons of the feed-forward layers are computed. */
export interface SparseOptions {
  /**
   * dense: all. exact: the first matrix for all, the second for those whose activation is not 0.
   * lowrank: those that the predictor of a calibrated model chooses for each token. sentence: those
   * that it chooses for a whole text. auto: lowrank with a sparsity; else, in int8, the fastest of
   * lowrank, exact with ReLU, dense.
   */
  predictor?: 'auto' | 'dense' | 'exact' | 'lowrank' | 'sentence' | 'gate' | 'topk' | undefined;
  /**
   * For lowrank and sentence: the approximate share of neurons to skip, from 0 to below 1. Default:
   * the model's.
   */
  sparsity?: number | undefined;
}

/** How a model is opened, whatever opens it. */
export interface OpenOptions {
  /** auto: int8 if the file's weights are quantised, else bf16 with the addon on AMX if the model embeds. bf16: only the addon has it, on processors with instructions for it. */
  compute?: 'auto' | 'f32' | 'int8' | 'bf16' | undefined;
  /** The name of a kernel set, such as 'simd128'. Default: the fastest. */
  kernels?: string | undefined;
  /** Count the predictor's recall: see stats. All neurons are then computed. */
  recall?: boolean | undefined;
  /**
   * Of generators: which keys a token looks at, such as 'mass,mass=980' or 'full/quest,tokens=1024': see
   * docs/javascript.md. Default: 'full'.
   */
  attention?: string | undefined;
  /** Of generators: how keys and values are kept. auto, the default: int8 if the model computes in int8, else f32. */
  cacheType?: 'auto' | 'f32' | 'f16' | 'int8' | undefined;
  /**
   * Of generators in native code: a folder in which the keys and values of texts are kept, too. A prompt that begins as a
   * known text does is computed from where the two differ, in any process.
   */
  promptCache?: string | undefined;
  /**
   * Of generators in native code: the most bytes of memory for keys and values of an engine's texts. The others are in a
   * file without a name in $TMPDIR, else /var/tmp. Default: no limit.
   */
  kvMemory?: number | undefined;
  /** The most bytes of all files in that folder. Default: 4e9. */
  promptCacheSize?: number | undefined;
  /**
   * Of embedders in native code in Node, on Linux and macOS: a folder in which embeddings are kept. A text that was embedded
   * before is read from there, with the same bits, in any process: the program and Python use the same files.
   */
  vectorCache?: string | undefined;
  /** The most bytes of all files in that folder. Default: 1e9. */
  vectorCacheSize?: number | undefined;
  /**
   * Compute embeddings in int8 that have the same bits in every engine and on every machine, natively
   * too. Not for f32, sparse layers and generators.
   */
  portable?: boolean | undefined;
  /**
   * Of native code: what computes, 'cpu', 'cuda', the first NVIDIA GPU, or 'auto', which is the CPU if there is no GPU that can.
   * Default: 'cpu'.
   */
  device?: 'cpu' | 'cuda' | 'auto' | undefined;
}

/**
 * Progress of loading: bytes of the model, then workers that are ready. `total` is undefined if
 * the server does not tell the size.
 */
export interface LoadProgress {
  phase: 'model' | 'workers';
  loaded: number;
  total: number | undefined;
}

export interface LoadOptions extends OpenOptions, SparseOptions {
  /**
   * Number of workers; 0: compute on the calling thread. Default: one for each core, at most 4. In a cross-origin
   * isolated page, and in Node with cold, one worker has as many threads instead, which share its memory.
   */
  workers?: number | undefined;
  /** Gives up loading. */
  signal?: KnownSignal | undefined;
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  /**
   * all: fetch the whole model. wait: fetch what it opens from, and neurons that are needed seldom when texts need
   * them. skip: compute without these. For models of wisp calibrate, as paths (Node) and URLs; a page imports
   * wisp-engine/cold. `gap`: ranges with at most so many bytes between are fetched as one. Default: 16 KiB.
   * `first`: the bytes of the first request; with stats().cold.hotBytes, if that is known, it is the only one
   * before the model is ready. Default: 1 MiB. `complete`: fetch the rest of a URL's file while no text
   * waits; with skip, texts are computed with all neurons from then on. Default: true, unless the browser is to save
   * data. `store`: keep what is fetched of a URL for the next
   * visit. Default: true. `immutable`: take what is kept without asking the server whether it is still the same.
   * Default: false. `sha256`: that of the file's header, in hexadecimal digits as `wisp inspect --verify` prints it
   * and cache.list() has it: another file is an error, and if the file is kept the server is not asked.
   * `onChange`: is called when bytes have come or a text needs neurons, for pages that draw them, once
   * for several changes at a time; with it stats().cold has layers. `tokens`: these have the neurons of each of the
   * first so many tokens of a text, too. Default: 0.
   */
  cold?:
    | 'all'
    | 'wait'
    | 'skip'
    | {
        mode: 'wait' | 'skip';
        gap?: number | undefined;
        first?: number | undefined;
        complete?: boolean | undefined;
        tokens?: number | undefined;
        store?: boolean | undefined;
        immutable?: boolean | undefined;
        sha256?: string | undefined;
        onChange?: (() => void) | undefined;
      }
    | undefined;
  /**
   * With cold: 'wait', the bytes that the model may take in the memory of each worker, WebAssembly's, as
   * info().residentBytes counts them. Neurons and tokens that are used seldom are then given up, and come again from
   * the store, or else from where the model is. Fewer bytes than a batch may need at a time are an error, which names
   * the least, as stats().cold.memory.least does of a model without the option. Default: no limit.
   */
  memory?: number | undefined;
  /**
   * Threads of each worker, from 1 to 8, which share a single text and the texts of larger calls; auto: one for each
   * core, at most 4. By default there is then one worker. If workers share memory (Node, cross-origin isolated
   * pages); else a worker has one thread. Default: see workers.
   */
  threads?: number | 'auto' | undefined;
  /** A call that would make more texts wait than this fails as 'busy'. Default: no limit. */
  queueLimit?: number | undefined;
  /**
   * A folder with copies of the package's folders js and models, if wisp's files are not beside
   * its script.
   */
  files?: string | KnownURL | undefined;
  /** Hashes that the bytes must have: 'sha256-' and base64, as in Subresource Integrity. */
  integrity?:
    | {
        model?: string | undefined;
        wasm?: string | undefined;
        languages?: string | undefined;
      }
    | undefined;
  /**
   * native: the addon of the package for this platform, in Node. wasm: WebAssembly. auto, the default: the
   * addon if it is installed and of this version. info().reasons.backend says why one was chosen.
   */
  backend?: 'auto' | 'native' | 'wasm' | undefined;
  /** The path of the addon. Default: that of the package for this platform. */
  addon?: string | undefined;
  /** The module, or its URL. */
  wasm?: string | KnownURL | KnownModule | undefined;
  /**
   * The URL of the worker's script, or a function that makes a Worker of it: each worker of the pool, and in a page each
   * thread of one.
   */
  worker?: string | KnownURL | (() => any) | undefined;
  /**
   * In browsers, milliseconds until a worker whose script has not begun to run counts as failed.
   * Default: 60,000.
   */
  startTimeout?: number | undefined;
  /**
   * Milliseconds after which a worker that has nothing to do ends and gives back its memory. It comes back
   * when there is work again, from the model's bytes, which stay. Default: never.
   */
  idleTimeout?: number | undefined;
}

export interface CallOptions {
  /** Rejects the call at once. */
  signal?: KnownSignal | undefined;
}

export interface EmbedOptions {
  /**
   * The name of one of the model's prompts, or the text itself, which has a space or a mark in it;
   * '' for none. Default: the model's default prompt.
   */
  prompt?: string | undefined;
  /** Keep this many leading values of each row, normalised again. */
  dimensions?: number | undefined;
}

export interface BulkOptions extends CallOptions {
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
  /** Calls of high priority go before those of low priority. auto: high for a single text, else low. */
  priority?: 'auto' | 'high' | 'low' | undefined;
}

export interface EmbedCallOptions extends EmbedOptions, BulkOptions {}

/**
 * The first seven are those of the C library. trap: the WebAssembly instance failed and was dropped.
 * closed: close() or destroy() was called. worker: a worker could not start, ended or sent a malformed
 * reply. busy: the queue is full.
 */
export type WispErrorCode =
  | 'argument'
  | 'memory'
  | 'io'
  | 'not_found'
  | 'format'
  | 'unsupported'
  | 'cancelled'
  | 'trap'
  | 'closed'
  | 'worker'
  | 'busy';

/**
 * Every error that wisp throws on purpose. The name is 'WispError'; with the code 'cancelled' it is
 * that of the signal's reason, 'AbortError' or 'TimeoutError'.
 */
export class WispError extends Error {
  constructor(
    code: WispErrorCode,
    message: string,
    details?: { field?: string | undefined; cause?: unknown },
  );
  code: WispErrorCode;
  /** The part of the model file, or the option, that is at fault. */
  field: string;
  cause?: unknown;
  /** If embed() failed after rows were done: all rows. Those that are not done hold zeros. */
  rows?: Rows | undefined;
  /** The indices of the rows that are done, in ascending order. */
  finished?: number[] | undefined;
  /** If a text of generateBatch() failed: the GenerationResult of each. */
  results?: any[] | undefined;
}

/** The members that a Rows inherits. */
type Values = Omit<Float32Array, typeof Symbol.iterator>;
declare const Values: new (length: number) => Values;

/**
 * Embeddings, one row after the other in one Float32Array. `length` is the number of values. Iterating
 * gives the rows; `values()` gives the values; subarray, slice and map return plain Float32Arrays.
 */
export class Rows extends Values {
  constructor(count: number, dimensions: number);
  /** Number of rows. */
  count: number;
  /** Values of one row. */
  dimensions: number;
  /** Returns row i, as a view of these values. */
  row(i: number): Float32Array;
  /** With the option cold 'skip': the neurons that the rows were computed without. */
  skipped?: number;
  [Symbol.iterator](): IterableIterator<Float32Array>;
}

/** The loaded model, and how it runs. */
export interface EngineInfo {
  name: string;
  architecture: string;
  compute: string;
  kernels: string;
  predictor: string;
  /** The share of neurons that lowrank or sentence skips, else 0. */
  sparsity: number;
  pooling: string;
  /** of an embedding: hiddenSize, or fewer if the file says so */
  dimensions: number;
  hiddenSize: number;
  intermediateSize: number;
  layers: number;
  heads: number;
  vocabularySize: number;
  maxTokens: number;
  /** What embed puts before a text by default; '' for nothing. */
  prompt: string;
  parameters: number;
  residentBytes: number;
  /** Whether a Reranker scores texts with the model. */
  ranks: boolean;
  build: string;
  features: string;
}

export interface EmbedderInfo extends EngineInfo {
  /** Values of one embedding. */
  dimensions: number;
  modelBytes: number;
  /** 0: on the calling thread. */
  workers: number;
  /** Threads of each worker, if it has some. */
  threads?: number;
  sharedMemory: boolean;
  backend: 'native' | 'wasm';
  /** Why this backend, this build, this number of workers and this way to share the model were chosen. */
  reasons: {
    backend: string;
    build: string;
    workers: string;
    memory: string;
    /** With the option cold: why the model has all neurons, or not. */
    cold?: string;
    /** With the option threads: why there are so many, or fewer. */
    threads?: string;
  };
}

/**
 * Totals of one layer. The share of active neurons is computed / neurons. With the option `recall`,
 * recall is found / needed and precision is found / compared.
 */
export type LayerStats = {
  tokens: number;
  /** In the feed-forward layer. */
  seconds: number;
  /** Tokens times the layer's neurons. */
  neurons: number;
  /** Neurons whose activation was computed. */
  computed: number;
  /** Neurons that were added to the output, in groups of four. */
  contributing: number;
  /** Neurons that were computed while recall was counted. */
  compared: number;
  /** With ReLU neurons whose activation is not 0; else the fifth that contributes most. */
  needed: number;
  /** Neurons that were needed and computed. */
  found: number;
};

export interface Totals {
  texts: number;
  tokens: number;
  truncatedTexts: number;
  /** The time of each stage: 'tokenize', 'qkv' and so on. */
  stageSeconds: Record<string, number>;
  layers: LayerStats[];
  /**
   * With the option vectorCache: the texts that it had (`found`, and of these `truncated`, which truncatedTexts does not count)
   * and had not (`computed`, and of these `lost`: those that could not be kept, as on a full disk).
   */
  vectorCache?: { found: number; computed: number; lost: number; truncated: number };
}

/** Counts what a model with the option cold has fetched. Neurons of all layers count together. */
export interface ColdTotals {
  /** all: the server sends no ranges, or the file has no cold neurons. */
  mode: 'all' | 'wait' | 'skip';
  fileBytes: number;
  /** The bytes of the file that it opens from. */
  hotBytes: number;
  /** Bytes that came, those of repeated requests too. */
  fetchedBytes: number;
  requests: number;
  /** Bytes of the file that are here, in memory or in the store: all when nothing is left to fetch. */
  presentBytes: number;
  /** Bytes of them in the store, and what that is. */
  storedBytes: number;
  /** Bytes that were read from the store. */
  storeReadBytes: number;
  store: 'opfs' | 'indexeddb' | 'memory' | 'folder' | 'none';
  /** Why no more could be stored, such as a disk that is full. */
  storeError: string | undefined;
  /** Whether the rest of the file is being fetched while no text waits. */
  rest: 'off' | 'running' | 'done' | 'failed';
  /** Bytes that came so, and how many of them a text has needed since: the others have won nothing so far. */
  restBytes: number;
  restUsedBytes: number;
  neurons: number;
  /** Neurons that are always in memory. */
  hotNeurons: number;
  /** Other neurons in the memory of the worker that has most of them. */
  warmNeurons: number;
  /** Rare tokens whose embeddings are in the memory of the worker that has most of them. */
  warmTokens: number;
  /** Cold neurons that batches needed and that were in memory, or not. */
  hits: number;
  misses: number;
  /** How often the memory of 64 cold neurons was given to others. */
  evictions: number;
  /** Ranges of the file that workers were given, and their bytes. */
  reads: number;
  readBytes: number;
  /** Cold neurons that came before any text needed them: along with others, or with the rest of the file under skip. */
  prefetched: number;
  /** Those of them that a later text needed, and those that were given up before any did. */
  prefetchedUsed: number;
  prefetchedWasted: number;
  /**
   * Bytes of neurons in a worker's memory: hot ones; other ones, in the worker that has most of them; what all of
   * these would take. `budget` is the option memory, and `least` the fewest bytes that it may be; 0 if mode is all.
   */
  memory: { budget: number | undefined; least: number; hot: number; warm: number; cold: number };
  /** Neurons that tokens were computed without. */
  skipped: number;
  /** With the option cold.onChange: the parts of the file that are not here, and those that have been asked for. */
  absent?: [start: number, end: number][];
  coming?: [start: number, end: number][];
  /** With the option cold.onChange; none if mode is all. */
  layers?: ColdLayer[];
}

/** The neurons of one layer of a model by range. */
export interface ColdLayer {
  neurons: number;
  /** The first so many of them are always in memory. */
  hot: number;
  /** Where the file has the others, and the bytes of each; 0 if there are none. */
  coldOffset: number;
  rowBytes: number;
  /**
   * The state of each, in the order of the file: 1 if it is here, in memory or in the store, 2 if it is on its way,
   * plus 4 if the batch that a worker computed last, or computes, has needed it, plus 8 if that went without it
   * (skip). wisp-engine/cold exports these numbers as NEURON.
   */
  states: Uint8Array;
  /**
   * With the option cold.tokens, for each token of the batch that a worker computed last, special tokens included: 1 for
   * a neuron that it needs, else 0.
   */
  tokens: Uint8Array[];
}

/** Totals since loading, and the present state. */
export interface EmbedderStats extends Totals {
  backend: 'native' | 'wasm';
  /** WebAssembly memory of all workers; native: what the model, which they share, and its sessions hold. */
  memoryBytes: number;
  workers: number;
  busyWorkers: number;
  lostWorkers: number;
  waitingTexts: number;
  /** With the option cold. */
  cold?: ColdTotals;
}

/** A model that embeds texts, by workers that share the load. */
export class Embedder {
  private constructor();
  /** Loads a model and starts the workers. If anything fails, nothing stays open. */
  static load(source?: ModelSource, options?: LoadOptions): Promise<Embedder>;
  /** In Node: lets go of the model that stays for the next load when no embedder uses it. Pages keep none. */
  static releaseModels(): void;
  /** Values of one embedding. */
  readonly dimensions: number;
  /**
   * Resolves to a row for each text, in their order. The bits of a row depend on its text, the model
   * and the options, and not on other texts or the workers. Single texts go before bulk work.
   * If it is aborted or fails, the error has the rows that are done.
   */
  embed(texts: string | readonly string[], options?: EmbedCallOptions): Promise<Rows>;
  /** Resolves to the token ids that the model computes with, truncated to its limit. */
  tokenize(text: string, options?: CallOptions): Promise<Int32Array>;
  /**
   * Resolves to the number of tokens of a text before it is truncated, special tokens included, or to an
   * array with that of each text. A text is truncated if it has more than info().maxTokens.
   */
  countTokens(text: string, options?: BulkOptions): Promise<number>;
  countTokens(texts: readonly string[], options?: BulkOptions): Promise<number[]>;
  /**
   * Changes which neurons later calls compute. Resolves when the change is in force; if it rejects,
   * nothing has changed.
   */
  setSparse(options?: SparseOptions): Promise<void>;
  info(): EmbedderInfo;
  stats(): EmbedderStats;
  /** Waits for the calls that are under way, then ends the workers, and stores the ranges that have come. */
  close(): Promise<void>;
  /** Rejects the calls that are under way and ends the workers. */
  destroy(): Promise<void>;
  /** close(), for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}
