// SPDX-License-Identifier: Apache-2.0
// The platform of a browser: fetch, and shared memory where the page is isolated.
import { orRemedy, ownFile, resolve } from './files.js';
import { holdModel, holdUrl } from './models.js';
import { wrong } from './options.js';
import {
  bodySize,
  checkBytes,
  checker,
  readParts,
  readStream,
  request,
  share,
  viewOf,
  wrongSource,
} from './source.js';
import { startWorker } from './web-worker.js';

/** @type {import('../types/internal.js').Platform} */
export const platform = {
  cores: () => navigator.hardwareConcurrency || 1,
  noWorkers: () =>
    typeof Worker === 'function' ? undefined : 'a script of this kind cannot start workers',
  sharing: () =>
    globalThis.crossOriginIsolated
      ? { shared: true, reason: 'the page is cross-origin isolated' }
      : { shared: false, reason: 'the page is not cross-origin isolated: workers read a Blob' },
  folder: (files) => resolve(files, 'files'),
  compile: compileFetched,
  readModel,
  startWorker,
};

/** @type {Map<string, WebAssembly.Module>} the package's own modules, by their addresses */
const compiled = new Map();

/**
 * @param {() => URL} own
 * @param {string | URL | undefined} url
 * @param {AbortSignal} signal
 * @param {string} [integrity]
 */
async function compileFetched(own, url, signal, integrity) {
  const place = url ?? ownFile(own);
  const key = url || integrity ? '' : String(place);
  const known = compiled.get(key);
  if (known) return known;
  const module = await orRemedy(compileFrom(place, signal, integrity), !url);
  if (key) compiled.set(key, module);
  return module;
}

/**
 * @param {string | URL} url
 * @param {AbortSignal} signal
 * @param {string} [integrity]
 */
async function compileFrom(url, signal, integrity) {
  const response = await request(resolve(url, 'wasm'), signal);
  // Only a body of this type can be compiled while it arrives, and some servers do not send it.
  if (response.headers.get('content-type') === 'application/wasm' && !integrity) {
    return WebAssembly.compileStreaming(response);
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  checkBytes(bytes, String(url), { integrity });
  return WebAssembly.compile(bytes);
}

/**
 * @param {() => URL} own
 * @param {import('./source.js').ModelSource | undefined} source
 * @param {import('../types/internal.js').Reading} reading
 * @returns {Promise<import('../types/internal.js').HeldModel>}
 */
async function readModel(own, source, reading) {
  const shared = globalThis.crossOriginIsolated;
  const view = viewOf(source);
  if (view) return holdModel(undefined, async () => handOver(view, shared, reading));
  if (source instanceof Blob) return holdModel(undefined, () => readGiven(source, shared, reading));
  if (source === undefined) return orRemedy(readUrl(ownFile(own), shared, reading), true);
  if (typeof source !== 'string' && !(source instanceof URL)) throw wrongSource(source);
  if (/^hf:/.test(String(source))) throw wrong('source', "import 'wisp-engine/hub'");
  return readUrl(source, shared, reading);
}

/**
 * @param {string | URL} url
 * @param {boolean} shared
 * @param {import('../types/internal.js').Reading} reading
 */
function readUrl(url, shared, reading) {
  const place = resolve(url, 'source');
  return holdUrl(place, reading, (response) => {
    const body = /** @type {ReadableStream<Uint8Array>} */ (response.body);
    return (shared ? readStream : readBlob)(body, bodySize(response), place.href, reading);
  });
}

/**
 * @param {Blob} blob
 * @param {boolean} shared
 * @param {import('../types/internal.js').Reading} reading
 */
async function readGiven(blob, shared, reading) {
  if (shared) return readStream(blob.stream(), blob.size, 'the file', reading);
  const check = checker('the file', reading);
  const looked = reading.integrity ? blob : blob.slice(0, 1);
  await readParts(looked.stream(), 'the file', reading.signal, check.add);
  check.end();
  reading.progress(blob.size, blob.size);
  return blob;
}

/**
 * @param {Uint8Array} view
 * @param {boolean} shared
 * @param {import('../types/internal.js').Reading} reading
 */
function handOver(view, shared, reading) {
  checkBytes(view, 'the model', reading);
  const model = shared ? share(view) : new Blob([/** @type {any} */ (view)]);
  reading.progress(view.length, view.length);
  return model;
}

/**
 * Makes a Blob, whose bytes the browser keeps outside the page's memory.
 * @param {ReadableStream<Uint8Array>} body
 * @param {number | undefined} total
 * @param {string} name
 * @param {import('../types/internal.js').Reading} reading
 */
async function readBlob(body, total, name, reading) {
  /** @type {Blob[]} */
  const parts = [];
  const check = checker(name, reading);
  let loaded = 0;
  await readParts(body, name, reading.signal, (part) => {
    check.add(part);
    parts.push(new Blob([/** @type {any} */ (part)]));
    reading.progress((loaded += part.length), total);
  });
  check.end();
  return new Blob(parts);
}
