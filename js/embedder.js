// SPDX-License-Identifier: Apache-2.0
import { pickBuild } from './builds.js';
import { WispError, cancelled, throwIfAborted } from './errors.js';
import { EmbedJob, TokenizeJob } from './job.js';
import { startLocal } from './link-local.js';
import { Pool } from './pool.js';
import { checkSparse } from './sparse.js';

/**
 * The functions of the environment, browser or Node, that a pool needs.
 * @typedef {object} Platform
 * @property {() => number} cores
 * @property {() => { shared: boolean, reason: string }} sharing whether workers share model bytes
 * @property {(build: import('./builds.js').Build, url: string | URL | undefined,
 *   signal: AbortSignal) => Promise<WebAssembly.Module>} compile
 * @property {(source: import('./source.js').ModelSource | undefined,
 *   reading: import('./source.js').Reading) => Promise<import('./protocol.js').SharedModel>
 *   } readModel
 * @property {(given: string | URL | (() => any) | undefined, startTimeout: number) =>
 *   import('./member.js').StartLink} startWorker
 */

/**
 * Progress of loading: bytes of the model, then workers that are ready. `total` is undefined where
 * the server does not tell the size.
 * @typedef {{ phase: 'model' | 'workers', loaded: number, total: number | undefined }} LoadProgress
 */

/**
 * @typedef {object} LoadOptions
 * @property {number} [workers] number of workers; 0: compute on the calling thread. Default: one for
 *   each core, at most 4
 * @property {AbortSignal} [signal] gives up loading
 * @property {(progress: LoadProgress) => void} [onProgress]
 * @property {'auto' | 'f32' | 'int8'} [compute] auto: int8 where the file's weights are quantised
 * @property {string} [kernels] the name of a kernel set, such as 'simd128'. Default: the fastest
 * @property {import('./sparse.js').SparseOptions['predictor']} [predictor] which neurons are
 *   computed; setSparse changes it
 * @property {number} [sparsity] the share of neurons that a calibrated model skips
 * @property {boolean} [recall] count the predictor's recall: see stats
 * @property {number} [queueLimit] a call that would make more texts wait than this fails as 'busy'.
 *   Default: no limit
 * @property {string | URL | WebAssembly.Module} [wasm] the module, or its URL
 * @property {string | URL | (() => any)} [worker] the URL of the worker's script, or a function that
 *   makes a Worker of it, for bundlers that do not find the script beside this file
 * @property {number} [startTimeout] in browsers, milliseconds until a worker whose script has not
 *   begun to run counts as failed. Default: 60,000
 */

/**
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal] rejects the call at once
 */

/**
 * @typedef {import('./engine.js').EmbedOptions & CallOptions & {
 *   onProgress?: (progress: { done: number, total: number }) => void }} EmbedCallOptions
 */

/** At most so many workers unless asked for more: each holds the model's packed weights. */
const DEFAULT_MOST_WORKERS = 4;

/** A page may load its scripts over a slow line. */
const START_MS = 60_000;

/**
 * @typedef {object} Loaded the parts of a platform's Embedder
 * @property {Pool} pool
 * @property {number} modelBytes
 * @property {number} workers
 * @property {boolean} sharedMemory
 * @property {{ build: string, workers: string, memory: string }} reasons
 */

/**
 * Loads a model and starts the workers. Where anything fails, nothing stays open.
 * @param {Platform} platform
 * @param {import('./source.js').ModelSource | undefined} source
 * @param {LoadOptions} options
 * @returns {Promise<Loaded>}
 */
export async function load(platform, source, options = {}) {
  const {
    signal,
    onProgress = () => {},
    worker,
    compute,
    kernels,
    predictor,
    sparsity,
    recall,
    startTimeout = START_MS,
  } = options;
  throwIfAborted(signal);
  const counted = countWorkers(platform, options.workers);
  const chosen = chooseModule(options.wasm);
  const stop = new AbortController();
  const abort = () => stop.abort(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    /** @param {number} loaded @param {number | undefined} total */
    const progress = (loaded, total) => onProgress({ phase: 'model', loaded, total });
    const files = Promise.all([
      chosen.module ?? compile(platform, chosen, stop.signal),
      platform.readModel(source, { signal: stop.signal, progress }),
    ]);
    files.catch(() => {}); // the workers, which wait for them, report it
    const pool = new Pool({
      size: counted.size,
      start: counted.workers === 0 ? startLocal : platform.startWorker(worker, startTimeout),
      files,
      options: { compute, kernels, predictor, sparsity, recall },
      queueLimit: options.queueLimit ?? Infinity,
    });
    await openPool(pool, stop.signal, (loaded) =>
      onProgress({ phase: 'workers', loaded, total: counted.size }),
    );
    const [, model] = await files;
    const { shared, reason } = platform.sharing();
    return {
      pool,
      modelBytes: model instanceof Blob ? model.size : model.byteLength,
      workers: counted.workers,
      sharedMemory: shared && counted.workers > 0,
      reasons: { build: chosen.reason, workers: counted.reason, memory: reason },
    };
  } catch (error) {
    stop.abort(error);
    throw signal?.aborted ? cancelled(signal) : error;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/**
 * @param {Pool} pool
 * @param {AbortSignal} signal
 * @param {(ready: number) => void} onReady
 */
async function openPool(pool, signal, onReady) {
  throwIfAborted(signal);
  const abort = () => void pool.destroy();
  signal.addEventListener('abort', abort, { once: true });
  try {
    await pool.open(onReady);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/**
 * @param {Platform} platform
 * @param {{ build: import('./builds.js').Build, url?: string | URL }} chosen
 * @param {AbortSignal} signal
 */
async function compile(platform, { build, url }, signal) {
  try {
    return await platform.compile(build, url, signal);
  } catch (cause) {
    if (cause instanceof WispError) throw cause;
    const { message } = /** @type {Error} */ (cause);
    throw new WispError('unsupported', `the module cannot be compiled: ${message}`, { cause });
  }
}

/**
 * @param {string | URL | WebAssembly.Module | undefined} wasm
 * @returns {{ build: import('./builds.js').Build, reason: string, url?: string | URL,
 *   module?: WebAssembly.Module }}
 */
function chooseModule(wasm) {
  const build = pickBuild();
  if (wasm instanceof WebAssembly.Module) return { build, module: wasm, reason: 'given' };
  if (wasm !== undefined) return { build, url: wasm, reason: 'given' };
  return {
    build,
    reason: build === 'relaxed' ? 'relaxed SIMD runs here' : 'relaxed SIMD does not run here',
  };
}

/**
 * @param {Platform} platform
 * @param {number | undefined} asked
 */
function countWorkers(platform, asked) {
  if (asked !== undefined && !(Number.isInteger(asked) && asked >= 0)) {
    throw new WispError('argument', `workers: ${asked} is not a whole number from 0`, {
      field: 'workers',
    });
  }
  if (asked === 0) return { workers: 0, size: 1, reason: 'asked for: on the calling thread' };
  if (asked !== undefined) return { workers: asked, size: asked, reason: 'asked for' };
  const cores = platform.cores();
  const workers = Math.min(cores, DEFAULT_MOST_WORKERS);
  const reason = `one for each of ${cores} cores, at most ${DEFAULT_MOST_WORKERS}`;
  return { workers, size: workers, reason };
}

/** A model that embeds texts, by workers that share the load. Made by Embedder.load. */
export class BaseEmbedder {
  #loaded;
  #pool;

  /** @param {Loaded} loaded */
  constructor(loaded) {
    this.#loaded = loaded;
    this.#pool = loaded.pool;
  }

  get #engine() {
    return /** @type {NonNullable<Pool['info']>} */ (this.#pool.info);
  }

  /** Values of one embedding. */
  get dimensions() {
    return this.#engine.hiddenSize;
  }

  /**
   * Resolves to a row for each text, in their order. The bits of a row depend on its text, the model
   * and the options, and not on other texts or the workers. Single texts go before bulk work.
   * @param {string | readonly string[]} texts
   * @param {EmbedCallOptions} [options]
   * @returns {Promise<import('./rows.js').Rows>}
   */
  async embed(texts, { signal, onProgress, prompt, dimensions } = {}) {
    throwIfAborted(signal);
    const list = typeof texts === 'string' ? [texts] : texts;
    checkTexts(list);
    checkDimensions(dimensions, this.dimensions);
    checkString(prompt ?? '', 'prompt');
    return this.#pool.submit(
      new EmbedJob([...list], {
        options: { prompt, dimensions },
        dimensions: dimensions ?? this.dimensions,
        maxTokens: this.#engine.maxTokens,
        signal,
        onProgress,
      }),
    );
  }

  /**
   * Resolves to the token ids that the model computes with, special tokens included, truncated to its
   * limit.
   * @param {string} text
   * @param {CallOptions} [options]
   * @returns {Promise<Int32Array>}
   */
  async tokenize(text, { signal } = {}) {
    throwIfAborted(signal);
    checkString(text, 'text');
    return this.#pool.submit(new TokenizeJob(text, signal));
  }

  /**
   * Changes which neurons are computed; the options are those of loading. Earlier calls run with the
   * old options, later calls with the new ones, after all earlier calls. Resolves when the change is in
   * force. Where it rejects, nothing has changed.
   * @param {import('./sparse.js').SparseOptions} [options]
   * @returns {Promise<void>}
   */
  async setSparse({ predictor, sparsity } = {}) {
    checkSparse({ predictor, sparsity });
    return this.#pool.setSparse({ predictor, sparsity });
  }

  /** Returns what was loaded, how it runs, and the reasons. */
  info() {
    const { workers, sharedMemory, reasons, modelBytes } = this.#loaded;
    const { dimensions } = this;
    return {
      ...this.#engine,
      dimensions,
      modelBytes,
      workers,
      sharedMemory,
      reasons: { ...reasons },
    };
  }

  /**
   * Returns totals since loading, and the present state. With the option `recall`, layers also count
   * how many of the needed neurons are computed. Without ReLU, these are the largest fifth among the
   * texts of each worker.
   */
  stats() {
    return this.#pool.stats();
  }

  /** Waits for the calls that are under way, then ends the workers. */
  close() {
    return this.#pool.close();
  }

  /** Rejects the calls that are under way and ends the workers. */
  destroy() {
    return this.#pool.destroy();
  }
}

/** @param {readonly string[]} texts */
function checkTexts(texts) {
  if (!Array.isArray(texts)) {
    throw new WispError('argument', 'texts: not a string or an array of strings', {
      field: 'texts',
    });
  }
  // forEach would skip holes.
  for (let i = 0; i < texts.length; i++) checkString(texts[i], `texts[${i}]`);
}

/**
 * @param {unknown} value
 * @param {string} field
 */
function checkString(value, field) {
  if (typeof value === 'string') return;
  throw new WispError('argument', `${field}: of type ${typeof value}, not a string`, { field });
}

/**
 * @param {number | undefined} dimensions
 * @param {number} most
 */
function checkDimensions(dimensions, most) {
  if (dimensions === undefined) return;
  if (Number.isInteger(dimensions) && dimensions >= 1 && dimensions <= most) return;
  throw new WispError(
    'argument',
    `dimensions: ${dimensions} is not a whole number from 1 to ${most}`,
    { field: 'dimensions' },
  );
}
