// SPDX-License-Identifier: Apache-2.0
// The platform of a browser: fetch, and shared memory if the page is isolated.
import { wrong } from '../base/options.js';
import { orRemedy, ownFile, resolve } from '../files/files.js';
import {
  bodySize,
  checkBytes,
  ownBytes,
  readChecked,
  readWhole,
  request,
  sharedMemory,
  stateOf,
  viewOf,
  wrongSource,
} from '../files/source.js';
import { startWorker } from './web-worker.js';

/** @type {import('../../types/internal.js').Platform} */
export const platform = {
  cores: () => navigator.hardwareConcurrency || 1,
  noWorkers: () =>
    typeof Worker === 'function' ? undefined : 'a script of this kind cannot start workers',
  sharing() {
    if (!globalThis.crossOriginIsolated) {
      const reason = 'the page is not cross-origin isolated: workers hold all they need';
      return { shared: false, reason };
    }
    hasRoom ??= canShareMemory();
    return hasRoom
      ? { shared: true, reason: 'the page is cross-origin isolated' }
      : { shared: false, reason: 'the browser has no room for 4 GB of shared memory' };
  },
  folder: (files) => resolve(files, 'files'),
  compile: compileFetched,
  readModel,
  startWorker,
};

/** @type {boolean | undefined} */
let hasRoom;

/**
 * Returns whether a module with threads can have its memory: 4 GB of addresses, which phones may lack. A worker finds
 * that out only when the model has arrived, which would be fetched again for workers without.
 */
function canShareMemory() {
  try {
    return Boolean(sharedMemory());
  } catch {
    return false;
  }
}

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
 * @param {import('../files/source.js').ModelSource | undefined} source
 * @param {import('../../types/internal.js').Reading} reading
 * @returns {Promise<import('../../types/internal.js').HeldModel>}
 */
async function readModel(own, source, reading) {
  const view = viewOf(source);
  // No Blob is made of shared memory.
  if (view) return readGiven(new Blob([view.slice()]), 'the model', reading);
  if (source instanceof Blob) return readGiven(source, 'the file', reading);
  if (source === undefined) return orRemedy(readUrl(ownFile(own), reading), true);
  if (typeof source !== 'string' && !(source instanceof URL)) throw wrongSource(source);
  if (/^hf:/.test(String(source))) throw wrong('source', "import 'wisp-engine/hub'");
  return readUrl(source, reading);
}

/** @param {import('../../types/internal.js').HeldModel['model']} model */
const held = (model) => ({ model, release() {} });

/** The caches of Chromium and of Firefox keep no larger files. */
const CACHED_BYTES = 32e6;

/**
 * Reads a model into memory, to free it when the workers have opened it, because the browser's cache has the bytes.
 * If that may not have them, or workers come back after hours, they become a Blob, which the browser keeps outside the
 * page's memory.
 * @param {string | URL} url
 * @param {import('../../types/internal.js').Reading} reading
 */
async function readUrl(url, reading) {
  const { href } = resolve(url, 'source');
  const response = await request(href, reading.signal);
  const { body, headers } = response;
  const size = bodySize(response);
  const state = stateOf(href, response);
  const { integrity } = reading;
  // A redirection may lead elsewhere the next time, such as to an address with another signature.
  const isStored = state && !response.redirected && !/no-store/.test(headers.get('cache-control'));
  if (isStored && !reading.rests && size && size <= CACHED_BYTES) {
    const { buffer, length } = await readWhole(body, size, href, reading, ownBytes);
    return held({ size: length, from: { url: href, state, integrity }, bytes: buffer });
  }
  /** @type {Blob[]} */
  const parts = [];
  await readChecked(body, size, href, reading, (part) => {
    parts.push(new Blob([part]));
  });
  const from = new Blob(parts);
  return held({ size: from.size, from });
}

/**
 * @param {Blob} from
 * @param {string} name
 * @param {import('../../types/internal.js').Reading} reading
 */
async function readGiven(from, name, reading) {
  const { size } = from;
  const looked = reading.integrity ? from : from.slice(0, 1);
  await readChecked(looked.stream(), size, name, { ...reading, progress() {} }, () => {});
  reading.progress(size, size);
  return held({ size, from });
}
