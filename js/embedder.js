// SPDX-License-Identifier: Apache-2.0
import { pickBuild } from './builds.js';
import { NoWorkersError, WispError, cancelled, throwIfAborted } from './errors.js';
import { EmbedJob, TokenizeJob } from './job.js';
import { startLocal } from './link-local.js';
import { checkOptions, wrong } from './options.js';
import { Pool } from './pool.js';
import { onAbort } from './signals.js';
import { checkSparse } from './sparse.js';

/**
 * The functions of the environment, browser or Node, that a pool needs.
 * @typedef {object} Platform
 * @property {() => number} cores
 * @property {() => string | undefined} noWorkers why this script cannot start workers, if so
 * @property {(files: string | URL) => URL} folder the address of a folder given as an option
 * @property {string} workerScript its place in the package
 * @property {() => { shared: boolean, reason: string }} sharing whether workers share model bytes
 * @property {(build: import('./builds.js').Build, url: string | URL | undefined,
 *   signal: AbortSignal, integrity?: string) => Promise<WebAssembly.Module>} compile
 * @property {(source: import('./source.js').ModelSource | undefined,
 *   reading: import('./source.js').Reading) => Promise<import('./models.js').HeldModel>} readModel
 * @property {(given: string | URL | (() => any) | undefined, startTimeout: number) =>
 *   import('./member.js').StartLink} startWorker
 */

/** @typedef {import('../types/index.js').LoadProgress} LoadProgress */
/** @typedef {import('../types/index.js').LoadOptions} LoadOptions */
/** @typedef {import('../types/index.js').CallOptions} CallOptions */
/** @typedef {import('../types/index.js').EmbedCallOptions} EmbedCallOptions */

/** At most so many workers unless asked for more: each holds the model's packed weights. */
const DEFAULT_MOST_WORKERS = 4;

/**
 * Environments that lack the symbol have this stand-in of compilers.
 * @type {typeof Symbol.asyncDispose}
 */
const ASYNC_DISPOSE = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** A page may load its scripts over a slow line. */
const START_MS = 60_000;

/**
 * @typedef {object} Loaded the parts of a platform's Embedder
 * @property {Pool} pool
 * @property {() => void} release lets go of the model's bytes
 * @property {number} modelBytes
 * @property {number} workers
 * @property {boolean} sharedMemory
 * @property {{ build: string, workers: string, memory: string }} reasons
 */

/** The names of the options of load. */
const LOAD_OPTIONS = [
  ...['workers', 'signal', 'onProgress', 'compute', 'kernels', 'predictor', 'sparsity', 'recall'],
  ...['queueLimit', 'files', 'integrity', 'wasm', 'worker', 'startTimeout'],
];

/**
 * Loads a model and starts the workers. Where anything fails, nothing stays open.
 * @param {Platform} platform
 * @param {import('./source.js').ModelSource | undefined} source
 * @param {LoadOptions} options
 * @returns {Promise<Loaded>}
 */
export async function load(platform, source, options = {}) {
  checkOptions(options, LOAD_OPTIONS);
  const { signal, compute, kernels, predictor, sparsity, recall } = options;
  const { startTimeout = START_MS, queueLimit = Infinity } = options;
  throwIfAborted(signal);
  const integrity = checkIntegrity(options.integrity);
  let counted = countWorkers(platform, options.workers);
  const chosen = chooseModule(options.wasm);
  const folder = options.files === undefined ? undefined : folderOf(platform, options.files);
  const worker = options.worker ?? (folder && new URL(platform.workerScript, folder));
  if (folder) chosen.url ??= new URL(`js/wisp-${chosen.build}.wasm`, folder);
  const stop = new AbortController();
  const forget = signal ? onAbort(signal, () => stop.abort(signal.reason)) : () => {};
  /** @type {{ error: unknown } | undefined} what onProgress threw, which is passed on unchanged */
  let thrown;
  /** @type {(progress: LoadProgress) => void} */
  const report = (progress) => {
    try {
      options.onProgress?.(progress);
    } catch (error) {
      thrown ??= { error };
      throw error;
    }
  };
  const reading = platform.readModel(
    source === undefined && folder ? new URL('models/wisp-default.gguf', folder) : source,
    {
      signal: stop.signal,
      progress: (loaded, total) => report({ phase: 'model', loaded, total }),
      integrity: integrity.model,
    },
  );
  const release = () => void reading.then((held) => held.release()).catch(() => {});
  const files = Promise.all([
    chosen.module ?? compile(platform, chosen, stop.signal, integrity.wasm),
    reading.then(({ model }) => model),
  ]);
  files.catch(() => {}); // the workers, which wait for them, report it

  const start = () =>
    openPool(
      new Pool({
        size: counted.size,
        start: counted.workers === 0 ? startLocal : platform.startWorker(worker, startTimeout),
        files,
        options: { compute, kernels, predictor, sparsity, recall },
        queueLimit,
      }),
      stop.signal,
      (loaded) => report({ phase: 'workers', loaded, total: counted.size }),
    );
  try {
    const pool = await start().catch((error) => {
      if (!(error instanceof NoWorkersError) || options.workers !== undefined) throw error;
      counted = { workers: 0, size: 1, reason: error.reason };
      return start();
    });
    const [, model] = await files;
    const { shared, reason } = platform.sharing();
    return {
      pool,
      release,
      modelBytes: model.size,
      workers: counted.workers,
      sharedMemory: shared && counted.workers > 0,
      reasons: { build: chosen.reason, workers: counted.reason, memory: reason },
    };
  } catch (error) {
    stop.abort(error);
    release();
    if (thrown) throw thrown.error;
    throw signal?.aborted ? cancelled(signal) : nameSource(error, source);
  } finally {
    forget();
  }
}

/**
 * Adds the model's name to an error of the engine, which knows only its bytes.
 * @param {unknown} error
 * @param {unknown} source
 */
function nameSource(error, source) {
  if (!(error instanceof WispError) || error.code !== 'format') return error;
  const name = typeof source === 'string' || source instanceof URL ? String(source) : undefined;
  if (!name || error.message.includes(name)) return error;
  const { code, message, field, cause } = error;
  return new WispError(code, `${name}: ${message}`, { field, cause });
}

/**
 * @param {Platform} platform
 * @param {string | URL} files
 */
function folderOf(platform, files) {
  if (typeof files !== 'string' && !(files instanceof URL)) {
    throw wrong('files', `of type ${typeof files}, not the URL of a folder`);
  }
  const { href } = platform.folder(files);
  return new URL(href.endsWith('/') ? href : `${href}/`);
}

/** @param {LoadOptions['integrity']} integrity */
function checkIntegrity(integrity = {}) {
  checkOptions(integrity, ['model', 'wasm']);
  for (const [name, value] of Object.entries(integrity)) {
    if (value !== undefined && !/^sha256-[A-Za-z0-9+/]{43}=$/.test(value)) {
      throw wrong('integrity', `${name} is not 'sha256-' and 44 characters of base64`);
    }
  }
  return integrity;
}

/**
 * @param {Pool} pool
 * @param {AbortSignal} signal
 * @param {(ready: number) => void} onReady
 */
async function openPool(pool, signal, onReady) {
  throwIfAborted(signal);
  const forget = onAbort(signal, () => void pool.destroy());
  try {
    await pool.open(onReady);
    return pool;
  } finally {
    forget();
  }
}

/**
 * @param {Platform} platform
 * @param {{ build: import('./builds.js').Build, url?: string | URL }} chosen
 * @param {AbortSignal} signal
 * @param {string} [integrity]
 */
async function compile(platform, { build, url }, signal, integrity) {
  try {
    return await platform.compile(build, url, signal, integrity);
  } catch (cause) {
    if (cause instanceof WispError) throw cause;
    const { message } = /** @type {Error} */ (cause);
    const name = url ? `${url}: ` : '';
    throw new WispError('unsupported', `${name}the module cannot be compiled: ${message}`, {
      cause,
    });
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
    throw wrong('workers', `${asked} is not a whole number from 0`);
  }
  if (asked === 0) return { workers: 0, size: 1, reason: 'asked for: on the calling thread' };
  if (asked !== undefined) return { workers: asked, size: asked, reason: 'asked for' };
  const without = platform.noWorkers();
  if (without) return { workers: 0, size: 1, reason: without };
  const cores = platform.cores();
  const workers = Math.min(cores, DEFAULT_MOST_WORKERS);
  const reason = `one for each of ${cores} cores, at most ${DEFAULT_MOST_WORKERS}`;
  return { workers, size: workers, reason };
}

/** A model that embeds texts, by workers that share the load. Made by Embedder.load. */
export class BaseEmbedder {
  #loaded;
  #pool;

  /** By this node.cjs recognises an embedder without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'Embedder';
  }

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
    return this.#engine.dimensions;
  }

  /**
   * Resolves to a row for each text, in their order. The bits of a row depend on its text, the model
   * and the options, and not on other texts or the workers. Single texts go before bulk work.
   * @param {string | readonly string[]} texts
   * @param {EmbedCallOptions} [options]
   * @returns {Promise<import('./rows.js').Rows>}
   */
  async embed(texts, options = {}) {
    checkOptions(options, ['signal', 'onProgress', 'prompt', 'dimensions']);
    const { signal, onProgress, prompt, dimensions } = options;
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
  async tokenize(text, options = {}) {
    checkOptions(options, ['signal']);
    const { signal } = options;
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
  async setSparse(options = {}) {
    checkOptions(options, ['predictor', 'sparsity']);
    const { predictor, sparsity } = options;
    checkSparse({ predictor, sparsity });
    return this.#pool.setSparse({ predictor, sparsity });
  }

  /** Returns what was loaded, how it runs, and the reasons. */
  info() {
    const { workers, sharedMemory, reasons, modelBytes } = this.#loaded;
    return {
      ...this.#engine,
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
    return this.#released(this.#pool.close());
  }

  /** Rejects the calls that are under way and ends the workers. */
  destroy() {
    return this.#released(this.#pool.destroy());
  }

  /** For `await using`: closes. */
  [ASYNC_DISPOSE]() {
    return this.close();
  }

  /** @param {Promise<void>} closing */
  async #released(closing) {
    await closing;
    this.#loaded.release();
  }
}

/** @param {readonly string[]} texts */
function checkTexts(texts) {
  if (!Array.isArray(texts)) {
    throw wrong('texts', 'not a string or an array of strings');
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
  throw wrong(field, `of type ${typeof value}, not a string`);
}

/**
 * @param {number | undefined} dimensions
 * @param {number} most
 */
function checkDimensions(dimensions, most) {
  if (dimensions === undefined) return;
  if (Number.isInteger(dimensions) && dimensions >= 1 && dimensions <= most) return;
  throw wrong('dimensions', `${dimensions} is not a whole number from 1 to ${most}`);
}
