// SPDX-License-Identifier: Apache-2.0
import { NoWorkersError, WispError, cancelled, onAbort, throwIfAborted } from './errors.js';
import { OneTaskJob } from './job.js';
import { checkOptions, checkString, shown, wrong } from './options.js';
import { Pool } from './pool.js';

/** @typedef {import('../types/index.js').LoadOptions} LoadOptions */
/** @typedef {import('../types/index.js').Embedder} Embedder */
/** @typedef {import('../types/internal.js').Build} Build */
/** @typedef {import('../types/internal.js').Own} Own */
/** @typedef {import('../types/internal.js').Platform} Platform */

/** Scripts may come over a slow line. */
const START_MS = 60_000;

/** As many as the program wisp has threads. */
const MOST_WORKERS = 1024;

const LOAD_OPTIONS =
  'workers signal onProgress compute kernels predictor sparsity recall portable cold memory queueLimit files integrity wasm worker startTimeout idleTimeout backend addon threads'.split(
    ' ',
  );

/**
 * Loads a model and starts the workers; else nothing stays open.
 * @param {Platform} platform
 * @param {Own} own
 * @param {import('./source.js').ModelSource | undefined} source
 * @param {LoadOptions} options
 * @returns {Promise<import('../types/internal.js').Loaded>}
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
  const threads = own.threads?.(platform, options);
  const { signal, compute, kernels, predictor, sparsity, recall, portable } = options;
  const { startTimeout = START_MS, queueLimit = Infinity, idleTimeout = Infinity } = options;
  throwIfAborted(signal);
  for (const [name, value] of Object.entries({ startTimeout, queueLimit, idleTimeout }))
    if (typeof value !== 'number' || !(value >= 0)) throw wrong(name, 'not a number from 0');
  const integrity = checkIntegrity(options.integrity);
  let counted = countWorkers(platform, own, options.workers);
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
  const stop = new AbortController();
  const forget = signal ? onAbort(signal, () => stop.abort(signal.reason)) : () => {};
  /** @type {{ error: unknown } | undefined} what onProgress threw, for load to throw */
  let thrown;
  /** @type {NonNullable<LoadOptions['onProgress']>} */
  const report = (progress) => {
    try {
      options.onProgress?.(progress);
    } catch (error) {
      thrown ??= { error };
      throw error;
    }
  };
  const reading = platform.readModel(
    own.model,
    source === undefined && folder ? new URL(`models/${own.names.model}.gguf`, folder) : source,
    {
      signal: stop.signal,
      progress: (loaded, total) => report({ phase: 'model', loaded, total }),
      integrity: integrity.model,
      rests: idleTimeout < Infinity,
      addon: native.addon,
    },
  );
  const release = () => void reading.then((held) => held.release()).catch(() => {});
  const files = Promise.all([
    native.addon ??
      chosen.module ??
      compile(
        platform,
        () => own.module(chosen.build, threads),
        chosen,
        stop.signal,
        integrity.wasm,
      ),
    reading.then(({ model }) => model),
  ]);
  files.catch(() => {}); // the workers, which wait for them, report it

  const start = () =>
    openPool(
      new Pool({
        size: counted.size,
        start:
          native.start?.(counted.workers > 0) ??
          (counted.workers ? platform.startWorker(own.worker, worker, startTimeout) : own.local),
        files,
        options: {
          compute,
          kernels,
          predictor,
          sparsity,
          recall,
          portable,
          ...(threads && { threads }),
        },
        queueLimit,
        idleTimeout,
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
      about: {
        modelBytes: model.size,
        workers: counted.workers,
        sharedMemory: shared && counted.workers > 0,
        backend: native.addon ? 'native' : 'wasm',
        reasons: {
          .../** @type {import('../types/internal.js').TeamInfo} */ (pool.info).reasons,
          backend: native.reason,
          build: native.build ?? chosen.reason,
          workers: counted.reason,
          memory: reason,
        },
      },
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
  if (asked !== undefined && !(Number.isInteger(asked) && asked >= 0 && asked <= MOST_WORKERS)) {
    throw wrong('workers', `${shown(asked)} is not a whole number from 0 to ${MOST_WORKERS}`);
  }
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

  /** @param {import('../types/internal.js').Loaded} loaded */
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
 * @throws {WispError} `unsupported` where the engine has no WebAssembly
 */
export function pickBuild() {
  if (!globalThis.WebAssembly) {
    throw new WispError('unsupported', 'no WebAssembly here: Lockdown Mode and --jitless end it');
  }
  return WebAssembly.validate(RELAXED_PROBE) ? 'relaxed' : 'simd128';
}
