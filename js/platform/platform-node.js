// SPDX-License-Identifier: Apache-2.0
// The platform of Node: files, worker threads, and memory that they share.
import { open, readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { WispError, throwIfAborted } from '../base/errors.js';
import { wrong } from '../base/options.js';
import { REMEDY, orRemedy, ownFile } from '../files/files.js';
import { fromHub } from '../hub/hub-node.js';
import { joined } from '../files/joined.js';
import { filesOf, partOf } from '../files/part-names.js';
import { holdFile, staysFile } from '../files/model-file-node.js';
import { holdModel, holdUrl } from '../files/models.js';
import {
  bodySize,
  checkBytes,
  checker,
  request,
  sharedBytes,
  sharedPart,
  viewOf,
  wrongSource,
} from '../files/source.js';
import { readStream, share } from '../files/source-node.js';

/** Bytes read from a file at once. */
const READ_BYTES = 4 * 1024 * 1024;

/** @type {import('../../types/internal.js').Platform} */
export const platform = {
  cores: availableParallelism,
  noWorkers: () =>
    (process.permission?.has('worker') ?? true)
      ? undefined
      : 'the process may not start threads: node --allow-worker',
  folder,
  sharing: () => ({ shared: true, reason: 'Node shares memory between threads' }),
  compile: compileRead,
  readModel,
  startWorker,
};

/**
 * Returns the address of a folder that is given as a path or a URL.
 * @param {string | URL} files
 */
function folder(files) {
  return asUrl(files) ?? pathToFileURL(`${files}/`);
}

/** @type {Map<string, WebAssembly.Module>} the package's own modules, by their addresses */
const compiled = new Map();

/**
 * @param {() => URL} own
 * @param {string | URL} [url] another place of it
 * @param {AbortSignal} [signal]
 * @param {string} [integrity]
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compileRead(own, url, signal, integrity) {
  const place = url ?? ownFile(own);
  const key = url || integrity ? '' : String(place);
  const known = compiled.get(key);
  if (known) return known;
  const bytes = await orRemedy(readModule(place), !url);
  checkBytes(bytes, String(place), { integrity });
  const module = await WebAssembly.compile(bytes);
  if (key) compiled.set(key, module);
  return module;
}

/** @param {string | URL} place */
async function readModule(place) {
  const url = asUrl(place);
  if (!url || url.protocol === 'file:') return readBytes(url ?? place);
  const response = await request(url, new AbortController().signal);
  return new Uint8Array(await response.arrayBuffer());
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
    throw fileError(error, String(path));
  }
}

/**
 * @param {() => URL} own
 * @param {import('../files/source.js').ModelSource | undefined} source
 * @param {import('../../types/internal.js').Reading} reading
 * @returns {Promise<import('../../types/internal.js').HeldModel>}
 */
async function readModel(own, source, reading) {
  const view = viewOf(source);
  if (view) {
    checkBytes(view, 'the model', reading);
    reading.progress(view.length, view.length);
    return holdModel(undefined, async () => share(view));
  }
  if (source instanceof Blob) {
    return holdModel(undefined, () =>
      readStream(source.stream(), source.size, 'the Blob', reading),
    );
  }
  if (source === undefined) {
    return orRemedy(readFileShared(fileURLToPath(ownFile(own)), reading), true);
  }
  if (typeof source !== 'string' && !(source instanceof URL)) throw wrongSource(source);
  const url = asUrl(source);
  if (url?.protocol === 'hf:') {
    const path = await fromHub(url.href, {
      signal: reading.signal,
      onProgress: ({ loaded, total }) => reading.progress(loaded, total),
    });
    // The file is read to its end before a second pass over its bytes would be worth a report.
    const progress = (/** @type {number} */ loaded, /** @type {number | undefined} */ total) =>
      loaded === total && reading.progress(loaded, total);
    return readFileShared(path, { ...reading, progress });
  }
  if (!url) {
    return readFileShared(/** @type {string} */ (source), reading).catch((error) =>
      withHubName(error, source),
    );
  }
  if (url.protocol === 'file:') return readFileShared(fileURLToPath(url), reading);
  if (partOf(url.pathname)) return readUrls(url, reading);
  return holdUrl(url, reading, (response) =>
    readStream(response.body, bodySize(response), url.href, reading),
  );
}

/**
 * Says what to write if a source that is not there may be a name on the Hub.
 * @param {any} error
 * @param {any} source
 * @returns {never}
 */
function withHubName(error, source) {
  if (error.code === 'not_found' && /^[\w-][\w.-]*\/(?!.*\.gguf$)[\w.-]+$/.test(source))
    error.message += `; did you mean 'hf:${source}'?`;
  throw error;
}

/**
 * A string is a URL if it begins as one, else a path.
 * @param {string | URL} source
 */
export function asUrl(source) {
  if (source instanceof URL) return source;
  return /^(https?|file|data|blob|hf):/i.test(source) ? new URL(source) : undefined;
}

/**
 * @param {string} path
 * @param {import('../../types/internal.js').Reading} reading
 */
async function readFileShared(path, reading) {
  try {
    if (partOf(path)) return await readFiles(path, reading);
    if (staysFile(reading)) return await holdFile(path, reading);
    const file = await open(path);
    try {
      const { dev, ino, size, mtimeNs } = await file.stat({ bigint: true });
      const key = `${path} ${dev} ${ino} ${size} ${mtimeNs} ${reading.integrity}`;
      const held = await holdModel(key, () => readOpened(file, Number(size), path, reading));
      reading.progress(held.model.size, held.model.size);
      return held;
    } finally {
      await file.close();
    }
  } catch (error) {
    throw fileError(error, path);
  }
}

/** @typedef {import('../files/joined.js').Part & { fill: (into: Uint8Array, from: number) => Promise<void> }} FilledPart */

/**
 * Joins the files of a model in memory.
 * @param {readonly FilledPart[]} parts
 * @param {import('../../types/internal.js').Reading} reading
 */
async function joinShared(parts, { signal, progress, integrity }) {
  if (integrity !== undefined)
    throw wrong('integrity', `it is the hash of one file, and the model is in ${parts.length}`);
  const { size, header, data } = await joined(parts);
  const bytes = sharedBytes(size);
  bytes.set(header);
  let at = header.length;
  for (const [i, { from, size: length, zeros }] of data.entries()) {
    for (let done = 0; done < length; done += READ_BYTES) {
      throwIfAborted(signal);
      const end = Math.min(done + READ_BYTES, length);
      await parts[i].fill(bytes.subarray(at + done, at + end), from + done);
      progress(at + end, size);
    }
    at += length + zeros;
  }
  progress(size, size);
  return holdModel(undefined, async () => sharedPart(bytes));
}

/**
 * Reads the files of a model, of which the path names the first.
 * @param {string} path
 * @param {import('../../types/internal.js').Reading} reading
 */
async function readFiles(path, reading) {
  /** @type {import('node:fs/promises').FileHandle[]} */
  const files = [];
  try {
    const parts = [];
    for (const name of filesOf(path)) {
      const file = await open(name);
      files.push(file);
      parts.push(partOfFile(name, file, (await file.stat()).size));
    }
    return await joinShared(parts, reading);
  } finally {
    for (const file of files) await file.close();
  }
}

/**
 * @param {string} name
 * @param {import('node:fs/promises').FileHandle} file
 * @param {number} size
 * @returns {FilledPart}
 */
function partOfFile(name, file, size) {
  /** @type {FilledPart['fill']} */
  async function fill(into, from) {
    for (let at = 0; at < into.length;) {
      const { bytesRead } = await file.read(into, at, into.length - at, from + at);
      if (bytesRead === 0) throw new WispError('io', `${name} became shorter while it was read`);
      at += bytesRead;
    }
  }
  return {
    name,
    size,
    fill,
    async read(from, to) {
      const bytes = new Uint8Array(to - from);
      await fill(bytes, from);
      return bytes;
    },
  };
}

/**
 * Fetches the files of a model, of which the URL names the first.
 * @param {URL} first
 * @param {import('../../types/internal.js').Reading} reading
 */
async function readUrls(first, reading) {
  const { signal } = reading;
  /** @type {FilledPart[]} */
  const parts = [];
  let before = 0;
  for (const pathname of filesOf(first.pathname)) {
    const url = Object.assign(new URL(first), { pathname });
    const response = await request(url, signal);
    const progress = (/** @type {number} */ loaded) => reading.progress(before + loaded, undefined);
    const { buffer, at, size } = await readStream(response.body, bodySize(response), url.href, {
      signal,
      progress,
    });
    const bytes = new Uint8Array(buffer, at, size);
    parts.push({
      name: url.href,
      size,
      read: async (from, to) => bytes.slice(from, to),
      fill: async (into, from) => into.set(bytes.subarray(from, from + into.length)),
    });
    before += size;
  }
  return joinShared(parts, { ...reading, progress: () => {} });
}

/**
 * @param {import('node:fs/promises').FileHandle} file
 * @param {number} size
 * @param {string} path
 * @param {import('../../types/internal.js').Reading} reading
 */
async function readOpened(file, size, path, reading) {
  const bytes = sharedBytes(size);
  const check = checker(path, reading);
  for (let at = 0; at < size;) {
    throwIfAborted(reading.signal);
    const { bytesRead } = await file.read(bytes, at, Math.min(READ_BYTES, size - at), at);
    if (bytesRead === 0) throw new WispError('io', `${path} became shorter while it was read`);
    check.add(bytes.subarray(at, at + bytesRead));
    at += bytesRead;
    if (at < size) reading.progress(at, size);
  }
  check.end();
  return sharedPart(bytes);
}

/**
 * @param {unknown} error
 * @param {string} path
 */
export function fileError(error, path) {
  if (error instanceof WispError) return error;
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
  const more =
    code === 'EISDIR'
      ? `: ${path} is a folder. import 'wisp-engine/convert' lets a Hugging Face folder be loaded; ` +
        `npx wisp-engine convert ${path} model.gguf makes a file of it`
      : '';
  return new WispError(code === 'ENOENT' ? 'not_found' : 'io', message + more, { cause: error });
}

/**
 * Starting needs no time limit, because Node reports every end of a worker.
 * @param {() => Worker} own
 * @param {string | URL | (() => Worker)} [given]
 * @returns {import('../../types/internal.js').StartLink}
 */
function startWorker(own, given) {
  const make = typeof given === 'function' ? given : given ? () => makeWorker(given) : own;
  return ({ reply, end }) => {
    const worker = make();
    /** @type {unknown} */
    let cause;
    worker.on('message', reply);
    worker.on('messageerror', (error) =>
      end(endError('sent a message that cannot be read', error)),
    );
    worker.on('error', (error) => (cause = error)); // 'exit' follows
    worker.on('exit', (code) => end(endError(`ended with exit code ${code}`, cause, !given)));
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
 * Flags of the program, such as --input-type, must not apply to a worker's script. The package's own workers have the same
 * options as literals: Turbopack bundles no worker whose options are a name.
 */
const makeWorker = (/** @type {string | URL} */ script) =>
  new Worker(script, { name: 'wisp', execArgv: [] });

/**
 * @param {string} what
 * @param {unknown} cause
 * @param {boolean} [own] whether it is the package's own script
 */
function endError(what, cause, own) {
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (cause ?? {});
  const missing = own && /MODULE_NOT_FOUND/.test(code ?? '');
  return new WispError(
    code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'worker',
    `a worker ${what}${message ? `: ${message}` : ''}${missing ? `. ${REMEDY}` : ''}`,
    { cause },
  );
}
