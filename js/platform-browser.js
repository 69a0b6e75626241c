// SPDX-License-Identifier: Apache-2.0
// The platform of a browser: fetch, Web Workers, and shared memory where the page is isolated.
import { WispError } from './errors.js';
import { bodySize, readParts, readStream, request, share, viewOf, wrongSource } from './source.js';

/** @type {import('./embedder.js').Platform} */
export const platform = {
  cores: () => navigator.hardwareConcurrency || 1,
  sharing: () =>
    globalThis.crossOriginIsolated
      ? { shared: true, reason: 'the page is cross-origin isolated' }
      : { shared: false, reason: 'the page is not cross-origin isolated: workers read a Blob' },
  compile: compileFetched,
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
 * @param {string | URL | undefined} url
 * @param {AbortSignal} signal
 */
async function compileFetched(build, url = buildUrl(build), signal) {
  const response = await request(url, signal);
  // Only a body of this type can be compiled while it arrives, and some servers do not send it.
  return response.headers.get('content-type') === 'application/wasm'
    ? WebAssembly.compileStreaming(response)
    : WebAssembly.compile(await response.arrayBuffer());
}

/**
 * @param {import('./source.js').ModelSource | undefined} source
 * @param {import('./source.js').Reading} reading
 * @returns {Promise<import('./protocol.js').SharedModel>}
 */
async function readModel(
  source = new URL('../models/wisp-default.gguf', import.meta.url),
  reading,
) {
  const shared = globalThis.crossOriginIsolated;
  const view = viewOf(source);
  if (view) return handOver(view, shared, reading);
  if (source instanceof Blob) {
    if (shared) return readStream(source.stream(), source.size, 'the file', reading);
    reading.progress(source.size, source.size);
    return source;
  }
  if (typeof source !== 'string' && !(source instanceof URL)) throw wrongSource(source);
  const response = await request(source, reading.signal);
  const total = bodySize(response);
  const body = /** @type {ReadableStream<Uint8Array>} */ (response.body);
  return shared
    ? readStream(body, total, String(source), reading)
    : readBlob(body, total, String(source), reading);
}

/**
 * @param {Uint8Array} view
 * @param {boolean} shared
 * @param {import('./source.js').Reading} reading
 */
function handOver(view, shared, { progress }) {
  const model = shared ? share(view) : new Blob([/** @type {any} */ (view)]);
  progress(view.length, view.length);
  return model;
}

/**
 * Makes a Blob, whose bytes the browser keeps outside the page's memory.
 * @param {ReadableStream<Uint8Array>} body
 * @param {number | undefined} total
 * @param {string} name
 * @param {import('./source.js').Reading} reading
 */
async function readBlob(body, total, name, { signal, progress }) {
  /** @type {Blob[]} */
  const parts = [];
  let loaded = 0;
  await readParts(body, name, signal, (part) => {
    parts.push(new Blob([/** @type {any} */ (part)]));
    progress((loaded += part.length), total);
  });
  return new Blob(parts);
}

/**
 * @param {string | URL | (() => Worker) | undefined} given
 * @param {number} startTimeout
 * @returns {import('./member.js').StartLink}
 */
function startWorker(given, startTimeout) {
  return ({ reply, end }) => {
    const worker = makeWorker(given);
    const late = setTimeout(
      () => end(endError(`did not start in ${startTimeout} ms`)),
      startTimeout,
    );
    const stopped = new AbortController();
    worker.onmessage = ({ data }) => {
      if (!('hello' in data)) return reply(data);
      clearTimeout(late);
      if (data.hello) waitForEnd(data.hello, stopped.signal, () => end(endError('ended')));
    };
    // Some browsers lack the property.
    worker.addEventListener('messageerror', () => end(endError('sent what cannot be read')));
    worker.onerror = (event) => {
      event.preventDefault();
      // The event has no message where the script could not be loaded.
      end(endError(event.message ? `failed: ${event.message}` : 'could not load', event.error));
    };
    return {
      post: (message) => worker.postMessage(message),
      hold() {},
      async stop() {
        clearTimeout(late);
        stopped.abort();
        worker.terminate();
      },
    };
  };
}

/** @param {string | URL | (() => Worker)} [given] */
function makeWorker(given) {
  if (typeof given === 'function') return given();
  if (given) return new Worker(given, { type: 'module', name: 'wisp' });
  // Bundlers recognise exactly this expression.
  return new Worker(new URL('./worker-browser.js', import.meta.url), {
    type: 'module',
    name: 'wisp',
  });
}

/**
 * @param {string} lock that a worker holds as long as it lives
 * @param {AbortSignal} signal
 * @param {() => void} ended
 */
function waitForEnd(lock, signal, ended) {
  navigator.locks.request(lock, { signal }, ended).catch(() => {}); // it was aborted
}

/**
 * @param {string} what
 * @param {unknown} [cause]
 */
function endError(what, cause) {
  return new WispError('worker', `a worker ${what}`, { cause });
}
