// SPDX-License-Identifier: Apache-2.0
// Reading models and modules from files, URLs, streams and memory.
import { WispError, cancelled, onAbort, takeMemory } from '../base/errors.js';
import { hasher } from '../base/sha256.js';
import { Silence, checkEndless } from './silence.js';

/** @typedef {import('../../types/index.js').ModelSource} ModelSource */

/**
 * Functions that end the request of a body, so that readParts can give up on a server that goes silent.
 * @type {WeakMap<object, () => void>}
 */
const requests = new WeakMap();

/**
 * @param {URL | string} url
 * @param {AbortSignal} signal
 * @param {RequestCache} [cache] how the browser's cache is asked
 * @returns {Promise<any>} a Response with a body
 */
export async function request(url, signal, cache = 'default') {
  const stop = new AbortController();
  const forget = onAbort(signal, () => stop.abort(signal.reason));
  if (signal.aborted) stop.abort(signal.reason);
  const silence = new Silence(() => stop.abort());
  const asked = fetch(url, { signal: stop.signal, cache }).finally(() => silence.end());
  const response = await orError(asked, `cannot fetch ${url}`, signal, silence);
  const end = () => {
    forget();
    stop.abort();
  };
  if (response.body) requests.set(response.body, end);
  if (!response.ok || !response.body) {
    throw new WispError(
      response.status === 404 ? 'not_found' : 'io',
      `cannot fetch ${url}: HTTP ${response.status} ${response.statusText}`.trimEnd(),
    );
  }
  if (!response.headers.get('content-type')?.startsWith('text/html')) return response;
  response.body.cancel().catch(() => {});
  throw htmlError(url);
}

/**
 * Servers of single-page applications answer so for files that they do not have.
 * @param {URL | string} url
 */
export function htmlError(url) {
  return new WispError(
    'format',
    `${url} is an HTML page and not the file: the server may send its start page for files that ` +
      'it does not have, or ask to log in',
  );
}

/**
 * Names a state of a URL: if it is equal, so are the bytes. Undefined if the server says too
 * little for that.
 * @param {URL | string} url
 * @param {Response} response
 */
export function stateOf(url, { headers }) {
  const etag = headers.get('etag') ?? headers.get('last-modified');
  return etag ? `${url} ${etag} ${headers.get('content-length')}` : undefined;
}

/**
 * Returns the bytes that a response's body should have; undefined if it is compressed or unknown.
 * @param {Response} response
 */
export function bodySize(response) {
  if (response.headers.get('content-encoding')) return undefined;
  return Number(response.headers.get('content-length')) || undefined;
}

/**
 * Reads a stream of a model's bytes, checks them, and reports progress.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {number | undefined} total
 * @param {string} name
 * @param {import('../../types/internal.js').Reading} reading
 * @param {(part: any, at: number) => void} take has to copy the part
 * @returns {Promise<number>} how many bytes came
 */
export async function readChecked(stream, total, name, reading, take) {
  const check = checker(name, reading);
  let loaded = 0;
  await readParts(stream, name, reading.signal, (part) => {
    check.add(part);
    checkEndless(name, loaded + part.length, requests.has(stream) ? total : 0);
    take(part, loaded);
    reading.progress((loaded += part.length), total);
  });
  check.end();
  return loaded;
}

/**
 * Reads a stream of `size` bytes into memory, or of more: servers of another origin may compress without
 * the page being told, and their Content-Length is that of what they send.
 * @template {ArrayBufferLike} T
 * @param {ReadableStream<Uint8Array>} stream
 * @param {number} size
 * @param {string} name
 * @param {import('../../types/internal.js').Reading} reading
 * @param {(size: number) => Uint8Array<T>} allocate
 */
export async function readWhole(stream, size, name, reading, allocate) {
  let bytes = allocate(size);
  const came = await readChecked(stream, size, name, reading, (part, at) => {
    if (at + part.length > bytes.length) {
      const larger = allocate(2 * (at + part.length));
      larger.set(bytes);
      bytes = larger;
    }
    bytes.set(part, at);
  });
  if (came >= size) return bytes.subarray(0, came);
  throw new WispError('io', `${name} has ${came} bytes, not the ${size} that the server said`);
}

/**
 * Checks the bytes of a model as they come: their beginning, and their hash.
 * @param {string} name
 * @param {{ integrity?: string }} expected
 */
export function checker(name, { integrity }) {
  const hash = integrity === undefined ? undefined : hasher();
  let begun = false;
  return {
    /** @param {Uint8Array} part */
    add(part) {
      if (!begun && part[0] === 0x3c) throw htmlError(name); // '<'
      begun = true;
      hash?.add(part);
    },
    end() {
      const found = hash?.end();
      if (found === integrity) return;
      throw new WispError('format', `${name}: its hash is ${found}, not ${integrity}`, {
        field: 'integrity',
      });
    },
  };
}

/**
 * Checks bytes that are in memory.
 * @param {Uint8Array} bytes
 * @param {string} name
 * @param {{ integrity?: string }} expected
 */
export function checkBytes(bytes, name, expected) {
  const check = checker(name, expected);
  check.add(bytes);
  check.end();
}

/** Bytes that are read at once. */
const PART_BYTES = 256 * 1024;

/** Readers in use. Chromium collects a Blob's reader that only its read waits for. */
const readers = new Set();

/**
 * Returns a reader of a stream's parts, each of which is gone when the next one is read. If the stream allows
 * it, all parts are read into one buffer: a new buffer for each part would make as much garbage as the model has bytes.
 * @param {ReadableStream<Uint8Array>} stream
 */
export function readerOf(stream) {
  let room = new Uint8Array(PART_BYTES);
  /** @type {any} */
  let reader;
  try {
    reader = stream.getReader({ mode: 'byob' });
  } catch {
    reader = stream.getReader(); // it allocates its own buffers
  }
  return {
    /** @returns {Promise<{ done: boolean, value: Uint8Array<ArrayBuffer> }>} */
    async read() {
      const part = await reader.read(room);
      if (part.value) room = new Uint8Array(part.value.buffer);
      return part;
    },
    /** @param {unknown} reason */
    cancel: (reason) => reader.cancel(reason),
  };
}

/**
 * Reads a stream part by part.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {string} name
 * @param {AbortSignal} signal
 * @param {(part: Uint8Array) => void} take
 */
export async function readParts(stream, name, signal, take) {
  const reader = readerOf(stream);
  readers.add(reader);
  const cancel = () => void reader.cancel(signal.reason).catch(() => {});
  signal.addEventListener('abort', cancel, { once: true });
  const end = requests.get(stream);
  const silence = end && new Silence(end);
  try {
    for (;;) {
      const { done, value } = await orError(reader.read(), `cannot read ${name}`, signal, silence);
      if (signal.aborted) throw cancelled(signal);
      if (done) return;
      silence?.add(value.length);
      take(value);
    }
  } finally {
    silence?.end();
    end?.(); // what was refused goes on no longer
    readers.delete(reader);
    signal.removeEventListener('abort', cancel);
  }
}

/** @param {number} size */
export const sharedBytes = (size) => allocate(size, SharedArrayBuffer);

/** Makes the memory of a module with threads: what it begins with, and 4 GB of addresses, all that it can have. */
export const sharedMemory = () =>
  new WebAssembly.Memory({ initial: 64, maximum: 65536, shared: true });

/** @param {number} size */
export const ownBytes = (size) => allocate(size, ArrayBuffer);

/**
 * @template {ArrayBufferLike} T
 * @param {number} size
 * @param {new (size: number) => T} Buffer
 */
function allocate(size, Buffer) {
  return takeMemory(`${size} bytes for a model`, () => new Uint8Array(new Buffer(size)));
}

/**
 * Returns a view of all bytes of a buffer or view; undefined for anything else. A frame or a vm context has an
 * ArrayBuffer of its own, of which instanceof knows nothing.
 * @param {any} source
 * @returns {Uint8Array | undefined}
 */
export function viewOf(source) {
  const isView = ArrayBuffer.isView(source);
  const buffer = isView ? source.buffer : source;
  if (!/^\[object (Shared)?ArrayBuffer]$/.test(Object.prototype.toString.call(buffer)))
    return undefined;
  try {
    return isView
      ? new Uint8Array(buffer, source.byteOffset, source.byteLength)
      : new Uint8Array(buffer);
  } catch (cause) {
    throw new WispError('argument', "the source's buffer is detached", { field: 'source', cause });
  }
}

/**
 * @param {Uint8Array} view of shared memory
 * @returns {import('../../types/protocol.js').SharedBytes}
 */
export function sharedPart({ buffer, byteOffset, length }) {
  return { buffer: /** @type {any} */ (buffer), at: byteOffset, size: length };
}

/** @param {unknown} source */
export function wrongSource(source) {
  const keys = Object.keys(source ?? {}).filter((key) => /^[a-z]+$/i.test(key));
  return new WispError(
    'argument',
    `the model's source is ${source === null ? 'null' : `of type ${typeof source}`}: give a ` +
      'path, URL, File, Blob or bytes, or nothing for the default model' +
      (keys.length > 0 ? `; options come second: load(undefined, { ${keys} })` : ''),
    { field: 'source' },
  );
}

/**
 * @template T
 * @param {Promise<T>} promise
 * @param {string} what
 * @param {AbortSignal} signal
 * @param {Silence} [silence]
 * @returns {Promise<T>}
 */
async function orError(promise, what, signal, silence) {
  try {
    return await promise;
  } catch (cause) {
    if (signal.aborted) throw cancelled(signal);
    if (silence?.isOver) throw new WispError('io', `${what}: ${silence.shown()}`, { cause });
    throw new WispError('io', `${what}: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}
