// SPDX-License-Identifier: Apache-2.0
// The platform of Node: files, worker threads, and memory that they share.
import { open, readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { WispError, throwIfAborted } from './errors.js';
import {
  bodySize,
  readStream,
  request,
  share,
  sharedBytes,
  viewOf,
  wrongSource,
} from './source.js';

/** Bytes read from a file at once. */
const READ_BYTES = 4 * 1024 * 1024;

/** The model that comes with the package. */
export const DEFAULT_MODEL = new URL('../models/wisp-default.gguf', import.meta.url);

/** @type {import('./embedder.js').Platform} */
export const platform = {
  cores: availableParallelism,
  sharing: () => ({ shared: true, reason: 'Node shares memory between threads' }),
  compile: compileBuild,
  readModel,
  startWorker,
};

/** @param {import('./builds.js').Build} build */
function buildUrl(build) {
  return build === 'relaxed'
    ? new URL('./wisp-relaxed.wasm', import.meta.url)
    : new URL('./wisp-simd128.wasm', import.meta.url);
}

/**
 * @param {import('./builds.js').Build} build
 * @param {string | URL} [url] another place of it
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compileBuild(build, url = buildUrl(build)) {
  return WebAssembly.compile(await readBytes(url));
}

/**
 * Reads a file.
 * @param {string | URL} path
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function readBytes(path) {
  try {
    const file = await readFile(path);
    return new Uint8Array(file.buffer, file.byteOffset, file.length);
  } catch (error) {
    throw fileError(error);
  }
}

/**
 * @param {import('./source.js').ModelSource | undefined} source
 * @param {import('./source.js').Reading} reading
 * @returns {Promise<Uint8Array>}
 */
async function readModel(source = DEFAULT_MODEL, reading) {
  const view = viewOf(source);
  if (view) {
    reading.progress(view.length, view.length);
    return share(view);
  }
  if (source instanceof Blob) return readStream(source.stream(), source.size, 'the Blob', reading);
  if (typeof source !== 'string' && !(source instanceof URL)) throw wrongSource(source);
  const url = asUrl(source);
  if (!url) return readFileShared(/** @type {string} */ (source), reading);
  if (url.protocol === 'file:') return readFileShared(fileURLToPath(url), reading);
  const response = await request(url, reading.signal);
  const body = /** @type {ReadableStream<Uint8Array>} */ (response.body);
  return readStream(body, bodySize(response), String(url), reading);
}

/**
 * A string is a URL where it begins as one, else a path.
 * @param {string | URL} source
 */
function asUrl(source) {
  if (source instanceof URL) return source;
  return /^(https?|file|data|blob):/i.test(source) ? new URL(source) : undefined;
}

/**
 * @param {string} path
 * @param {import('./source.js').Reading} reading
 */
async function readFileShared(path, { signal, progress }) {
  try {
    const file = await open(path);
    try {
      const { size } = await file.stat();
      const bytes = sharedBytes(size);
      for (let at = 0; at < size;) {
        throwIfAborted(signal);
        const { bytesRead } = await file.read(bytes, at, Math.min(READ_BYTES, size - at), at);
        if (bytesRead === 0) throw new WispError('io', `${path} became shorter while it was read`);
        at += bytesRead;
        progress(at, size);
      }
      return bytes;
    } finally {
      await file.close();
    }
  } catch (error) {
    throw fileError(error);
  }
}

/** @param {unknown} error */
function fileError(error) {
  if (error instanceof WispError) return error;
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
  return new WispError(code === 'ENOENT' ? 'not_found' : 'io', message, { cause: error });
}

/**
 * Starting needs no time limit, because Node reports every end of a worker.
 * @param {string | URL | (() => Worker)} [given]
 * @returns {import('./member.js').StartLink}
 */
function startWorker(given = new URL('./worker-node.js', import.meta.url)) {
  return ({ reply, end }) => {
    // Flags of the program, such as --input-type, must not apply to the worker's script.
    const worker =
      typeof given === 'function' ? given() : new Worker(given, { name: 'wisp', execArgv: [] });
    /** @type {unknown} */
    let cause;
    worker.on('message', reply);
    worker.on('messageerror', (error) => end(endError('sent what cannot be read', error)));
    worker.on('error', (error) => (cause = error)); // 'exit' follows
    worker.on('exit', (code) => end(endError(`ended with exit code ${code}`, cause)));
    return {
      post: (message) => worker.postMessage(message),
      hold: (busy) => (busy ? worker.ref() : worker.unref()),
      async stop() {
        worker.ref(); // else Node may exit before the worker has
        await worker.terminate();
      },
    };
  };
}

/**
 * @param {string} what
 * @param {unknown} cause
 */
function endError(what, cause) {
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (cause ?? {});
  return new WispError(
    code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'worker',
    `a worker ${what}${message ? `: ${message}` : ''}`,
    { cause },
  );
}
