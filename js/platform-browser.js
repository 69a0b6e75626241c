// SPDX-License-Identifier: Apache-2.0
// The platform of a browser: fetch, and shared memory where the page is isolated.
import { orRemedy, ownFile, resolve } from './files.js';
import { wrong } from './options.js';
import {
  bodySize,
  checkBytes,
  readChecked,
  readWhole,
  request,
  stateOf,
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
      : {
          shared: false,
          reason: 'the page is not cross-origin isolated: each worker holds all it needs',
        },
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
  const view = viewOf(source);
  if (view) return handOver(view, reading);
  if (source instanceof Blob) return checkGiven(source, reading);
  if (source === undefined) return orRemedy(readUrl(ownFile(own), reading), true);
  if (typeof source !== 'string' && !(source instanceof URL)) throw wrongSource(source);
  if (/^hf:/.test(String(source))) throw wrong('source', "import 'wisp-engine/hub'");
  return readUrl(source, reading);
}

/**
 * @param {import('../types/protocol.js').LentModel['from']} from
 * @param {number} size
 * @param {ArrayBuffer} [bytes]
 */
function lend(from, size, bytes) {
  return { model: { from, size, bytes, shares: globalThis.crossOriginIsolated }, release() {} };
}

/** The caches of Chromium and of Firefox keep no larger files. */
const CACHED_BYTES = 32e6;

/**
 * Reads a model into memory, to let go of it when the workers have it: the browser's cache has the bytes, too.
 * Where it may not have them, they become a Blob, which the browser keeps outside the page's memory.
 * @param {string | URL} url
 * @param {import('../types/internal.js').Reading} reading
 */
async function readUrl(url, reading) {
  const { href } = resolve(url, 'source');
  const response = await request(href, reading.signal);
  const size = bodySize(response);
  const state = stateOf(href, response);
  const isCached =
    Number(size) <= CACHED_BYTES && !/no-store/.test(`${response.headers.get('cache-control')}`);
  if (!state || !isCached) return readBlob(response, size, href, reading);
  const { length, buffer } = await readWhole(response.body, Number(size), href, reading);
  return lend({ url: href, state, integrity: reading.integrity }, length, buffer);
}

/**
 * @param {{ body: ReadableStream<Uint8Array> }} response
 * @param {number | undefined} total
 * @param {string} name
 * @param {import('../types/internal.js').Reading} reading
 */
async function readBlob({ body }, total, name, reading) {
  /** @type {Blob[]} */
  const parts = [];
  const loaded = await readChecked(body, total, name, reading, (part) => {
    parts.push(new Blob([part]));
  });
  return lend(new Blob(parts), loaded);
}

/**
 * @param {Blob} blob
 * @param {import('../types/internal.js').Reading} reading
 */
async function checkGiven(blob, reading) {
  const looked = reading.integrity ? blob : blob.slice(0, 1);
  const unsaid = { ...reading, progress() {} };
  await readChecked(looked.stream(), blob.size, 'the file', unsaid, () => {});
  reading.progress(blob.size, blob.size);
  return lend(blob, blob.size);
}

/**
 * @param {Uint8Array} view
 * @param {import('../types/internal.js').Reading} reading
 */
function handOver(view, reading) {
  checkBytes(view, 'the model', reading);
  reading.progress(view.length, view.length);
  return lend(new Blob([view.slice()]), view.length); // no Blob is made of shared memory
}
