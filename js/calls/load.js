// SPDX-License-Identifier: Apache-2.0
import { NoWorkersError, WispError, cancelled, onAbort, throwIfAborted } from '../base/errors.js';
import { LOAD_OPTIONS, checkOptions, checkString, engineOptions, wrong } from '../base/options.js';
import { OneTaskJob } from './job.js';
import { Pool } from './pool.js';

/** @typedef {import('../../types/index.js').LoadOptions} LoadOptions */
/** @typedef {import('../../types/index.js').Embedder} Embedder */
/** @typedef {import('../../types/internal.js').Build} Build */
/** @typedef {import('../../types/internal.js').Own} Own */
/** @typedef {import('../../types/internal.js').Platform} Platform */

/** Scripts may come over a slow line. */
const START_MS = 60_000;

/**
 * Loads a model and starts the workers; else nothing stays open.
 * @param {Platform} platform
 * @param {Own} own
 * @param {import('../files/source.js').ModelSource | undefined} source
 * @param {LoadOptions} options
 * @returns {Promise<import('../../types/internal.js').Loaded>}
 */
export async function load(platform, own, source, options = {}) {
  checkOptions(options, LOAD_OPTIONS);
  const { withThreads, isTeam, ...plain } = own;
  const { cold = 'all', ...others } = options;
  if (cold !== 'all' || options.memory !== undefined) {
    if (!platform.cold) throw wrong('cold', "import 'wisp-engine/cold'");
    return platform.cold(platform, plain, source, others, cold);
  }
  if (withThreads && (isTeam || options.threads !== undefined))
    return withThreads(platform, plain, source, options);
  const { signal } = options;
  throwIfAborted(signal);
  const plan = planOf(platform, own, options);
  const stop = new AbortController();
  const forget = signal ? onAbort(signal, () => stop.abort(signal.reason)) : () => {};
  const progress = reporter(options.onProgress);
  const files = readFiles(platform, own, source, plan, stop.signal, progress.report);
  try {
    const pool = await startPool(platform, own, plan, files, stop.signal, progress.report);
    const [, model] = await files.all;
    return { pool, plan, release: files.release, about: aboutOf(platform, plan, pool, model.size) };
  } catch (error) {
    stop.abort(error);
    files.release();
    if (progress.thrown) throw progress.thrown.error;
    throw signal?.aborted ? cancelled(signal) : nameSource(error, source);
  } finally {
    forget();
  }
}

/**
 * Checks the options, and chooses how the model runs.
 * @param {Platform} platform
 * @param {Own} own
 * @param {LoadOptions} options
 */
function planOf(platform, own, options) {
  const { startTimeout = START_MS, queueLimit = Infinity, idleTimeout = Infinity } = options;
  const threads = own.threads?.(platform, options);
  const integrity = checkIntegrity(options.integrity);
  const counted = countWorkers(platform, own, options.workers);
  const native = own.native?.(options) ?? { reason: 'no addon here' };
  if (!own.native && options.backend === 'native') throw wrong('backend', native.reason);
  const chosen = chooseModule(options.wasm);
  const folder = options.files === undefined ? undefined : folderOf(platform, options.files);
  const worker = options.worker ?? (folder && new URL(`js/${own.names.worker}.js`, folder));
  if (folder)
    chosen.url ??= new URL(
      `js/${own.names[threads ? 'threads' : 'module']}-${chosen.build}.wasm`,
      folder,
    );
  return {
    engine: { ...engineOptions(options), threads: threads || undefined },
    threads,
    integrity,
    counted,
    /** Whether no number of workers was asked for, so that there may be none. */
    mayDoWithout: options.workers === undefined,
    native,
    chosen,
    folder,
    worker,
    startTimeout,
    queueLimit,
    idleTimeout,
  };
}

/** @typedef {ReturnType<typeof planOf>} Plan */
/** @typedef {NonNullable<LoadOptions['onProgress']>} Report */

/**
 * Makes the function that reports progress. What onProgress throws is kept, for load to throw.
 * @param {LoadOptions['onProgress']} onProgress
 */
function reporter(onProgress) {
  const progress = {
    thrown: /** @type {{ error: unknown } | undefined} */ (undefined),
    report: /** @type {Report} */ (
      (done) => {
        try {
          onProgress?.(done);
        } catch (error) {
          progress.thrown ??= { error };
          throw error;
        }
      }
    ),
  };
  return progress;
}

/**
 * Begins to read the model and to compile the module, for workers that wait for both.
 * @param {Platform} platform
 * @param {Own} own
 * @param {import('../files/source.js').ModelSource | undefined} source
 * @param {Plan} plan
 * @param {AbortSignal} signal
 * @param {Report} report
 */
function readFiles(platform, own, source, plan, signal, report) {
  const { chosen, folder, idleTimeout, integrity, native, threads } = plan;
  const isCopied = source === undefined && folder;
  const reading = platform.readModel(
    own.model,
    isCopied ? new URL(`models/${own.names.model}.gguf`, folder) : source,
    {
      signal,
      progress: (loaded, total) => report({ phase: 'model', loaded, total }),
      integrity: integrity.model,
      rests: idleTimeout < Infinity,
      addon: native.addon,
    },
  );
  const module = () => own.module(chosen.build, threads);
  const all = Promise.all([
    native.addon ?? chosen.module ?? compile(platform, module, chosen, signal, integrity.wasm),
    reading.then(({ model }) => model),
  ]);
  all.catch(() => {}); // the workers, which wait for them, report it
  return {
    all,
    /** Frees the model's bytes. */
    release: () => reading.then((held) => held.release()).catch(() => {}),
  };
}

/**
 * Opens a pool. If the page may not start workers, the calling thread computes, unless workers were asked for.
 * @param {Platform} platform
 * @param {Own} own
 * @param {Plan} plan
 * @param {ReturnType<typeof readFiles>} files
 * @param {AbortSignal} signal
 * @param {Report} report
 */
async function startPool(platform, own, plan, files, signal, report) {
  const { native, worker, startTimeout, queueLimit, idleTimeout } = plan;
  const open = () => {
    const { size, workers } = plan.counted;
    const start =
      native.start?.(workers > 0) ??
      (workers ? platform.startWorker(own.worker, worker, startTimeout) : own.local);
    const parts = { options: plan.engine, queueLimit, idleTimeout, hooks: own.hooks };
    return openPool(new Pool({ size, start, files: files.all, ...parts }), signal, (loaded) =>
      report({ phase: 'workers', loaded, total: size }),
    );
  };
  try {
    return await open();
  } catch (error) {
    if (!(error instanceof NoWorkersError) || !plan.mayDoWithout) throw error;
    plan.counted = { workers: 0, size: 1, reason: error.reason };
    return open();
  }
}

/**
 * The part of info() that the engine does not know.
 * @param {Platform} platform
 * @param {Plan} plan
 * @param {Pool} pool
 * @param {number} modelBytes
 * @returns {import('../../types/internal.js').Loaded['about']}
 */
function aboutOf(platform, { chosen, counted, native }, pool, modelBytes) {
  const { shared, reason } = platform.sharing();
  return {
    modelBytes,
    workers: counted.workers,
    sharedMemory: shared && counted.workers > 0,
    backend: native.addon ? 'native' : 'wasm',
    reasons: {
      .../** @type {import('../../types/internal.js').TeamInfo} */ (pool.info).reasons,
      backend: native.reason,
      build: native.build ?? chosen.reason,
      workers: counted.reason,
      memory: reason,
    },
  };
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
  checkOptions(integrity, ['model', 'wasm', 'languages']);
  for (const [name, value] of Object.entries(integrity)) {
    if (value !== undefined && !/^sha256-[A-Za-z0-9+/]{43}=$/.test(String(value))) {
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
 * @param {() => URL} own
 * @param {{ url?: string | URL }} chosen
 * @param {AbortSignal} signal
 * @param {string} [integrity]
 */
export async function compile(platform, own, { url }, signal, integrity) {
  try {
    return await platform.compile(own, url, signal, integrity);
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
 * @returns {{ build: Build, reason: string, url?: string | URL,
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
 * @param {Own} own
 * @param {number | undefined} asked
 */
export function countWorkers(platform, { mostWorkers }, asked) {
  if (asked === 0) return { workers: 0, size: 1, reason: 'asked for: on the calling thread' };
  if (asked !== undefined) return { workers: asked, size: asked, reason: 'asked for' };
  const without = platform.noWorkers();
  if (without) return { workers: 0, size: 1, reason: without };
  const cores = platform.cores();
  const workers = Math.min(cores, mostWorkers);
  const reason = `one for each of ${cores} cores, at most ${mostWorkers}`;
  return { workers, size: workers, reason };
}

/**
 * Compilers use the stand-in too.
 * @type {typeof Symbol.asyncDispose}
 */
const ASYNC_DISPOSE = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** A loaded model, with the methods of types/index.d.ts that embedders and generators have. */
export class LoadedModel {
  #loaded;
  #pool;

  /** @param {import('../../types/internal.js').Loaded} loaded */
  constructor(loaded) {
    this.#loaded = loaded;
    this.#pool = loaded.pool;
  }

  /** @type {Embedder['tokenize']} */
  async tokenize(text, options = {}) {
    checkOptions(options, ['signal']);
    const { signal } = options;
    throwIfAborted(signal);
    checkString(text, 'text');
    return this.#pool.submit(new OneTaskJob({ type: 'tokenize', text }, signal));
  }

  /** @type {Embedder['setSparse']} */
  async setSparse(options = {}) {
    checkOptions(options, ['predictor', 'sparsity']);
    const { predictor, sparsity } = options;
    return this.#pool.setSparse({ predictor, sparsity });
  }

  info() {
    return {
      .../** @type {NonNullable<Pool['info']>} */ (this.#pool.info),
      ...structuredClone(this.#loaded.about),
    };
  }

  stats() {
    return { ...this.#pool.stats(), backend: this.#loaded.about.backend };
  }

  /** Waits for the calls that are under way, then ends the workers. */
  close() {
    return this.#pool.close().then(this.#loaded.release);
  }

  /** Rejects the calls that are under way and ends the workers. */
  destroy() {
    return this.#pool.destroy().then(this.#loaded.release);
  }

  /** For `await using`: closes. */
  [ASYNC_DISPOSE]() {
    return this.close();
  }
}

/**
 * A module with one function that uses i32x4.relaxed_dot_i8x16_i7x16_add_s. An environment without
 * this instruction refuses the module, as it would refuse the relaxed build.
 */
// prettier-ignore
const RELAXED_PROBE = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // magic, version
  0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7b, //       type: () -> v128
  0x03, 0x02, 0x01, 0x00, //                         one function of that type
  0x0a, 0x13, 0x01, 0x11, 0x00, //                   its code
  0x41, 0x00, 0xfd, 0x0f, //                         i32.const 0, i8x16.splat
  0x41, 0x00, 0xfd, 0x0f,
  0x41, 0x00, 0xfd, 0x0f,
  0xfd, 0x93, 0x02, 0x0b, //                         the dot product, end
]);

/**
 * @returns {Build} the faster build that runs here
 * @throws {WispError} `unsupported` if the engine has no WebAssembly
 */
export function pickBuild() {
  if (!globalThis.WebAssembly) {
    throw new WispError(
      'unsupported',
      'there is no WebAssembly here: Lockdown Mode and --jitless disable it',
    );
  }
  return WebAssembly.validate(RELAXED_PROBE) ? 'relaxed' : 'simd128';
}
