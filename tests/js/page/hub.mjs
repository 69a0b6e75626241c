// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of models by name run inside a page.
import { Embedder } from '../../../js/browser.js';
import { deleteCached, fromHub, fromUrl, listCached } from '../../../js/hub-browser.js';
import { standInForHub } from './hub-stand-in.mjs';

/** @typedef {import('../../../types/hub.js').HubOptions & { abortAt?: number, tellAt?: number, throws?: boolean }} Options */

/**
 * Runs a function of the module, and describes what came of it. The server learns by a request of /told that
 * `tellAt` bytes have come.
 * @param {'fromHub' | 'fromUrl'} what
 * @param {string} name
 * @param {Options} [options]
 */
export async function loadNamed(what, name, { abortAt, tellAt, throws, ...options } = {}) {
  const stop = new AbortController();
  /** @type {number[]} */
  const seen = [];
  try {
    const load = what === 'fromHub' ? fromHub : fromUrl;
    const blob = /** @type {Blob} */ (
      await load(name, {
        ...options,
        signal: stop.signal,
        onProgress({ loaded }) {
          seen.push(loaded);
          if (throws) throw new TypeError('mine');
          if (loaded === tellAt) fetch(`${options.endpoint}/told`, { mode: 'no-cors' });
          if (abortAt !== undefined && loaded >= abortAt) stop.abort();
        },
      })
    );
    const digest = await crypto.subtle?.digest('SHA-256', await blob.arrayBuffer());
    return { size: blob.size, hash: digest && hex(digest), last: seen.at(-1) };
  } catch (error) {
    const { name, code, message } = /** @type {any} */ (error);
    return { name, code, message };
  }
}

/** @param {ArrayBuffer} bytes */
const hex = (bytes) =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');

/**
 * Embeds with a model by its name, from another server than the Hub.
 * @param {string} name
 * @param {string} origin
 */
export async function embedNamed(name, origin) {
  const end = standInForHub(origin);
  try {
    /** @type {number[]} */
    const seen = [];
    const embedder = await Embedder.load(name, {
      workers: 2,
      onProgress: ({ phase, loaded }) => void (phase === 'model' && seen.push(loaded)),
    });
    const rows = await embedder.embed('one');
    const { modelBytes } = embedder.info();
    await embedder.close();
    const isRising = seen.every((loaded, i) => i === 0 || loaded >= seen[i - 1]);
    return { values: rows.length, modelBytes, isRising, last: seen.at(-1) };
  } finally {
    end();
  }
}

/**
 * Runs a module in a frame, whose modules are its own, and returns what it posts.
 * @param {string} script
 * @param {string} [sandbox]
 */
async function inFrame(script, sandbox) {
  const frame = document.createElement('iframe');
  if (sandbox) frame.setAttribute('sandbox', sandbox);
  frame.srcdoc = `<script type="module">${script}</script>`;
  const answer = new Promise((resolve) => addEventListener('message', resolve, { once: true }));
  document.body.append(frame);
  return (await answer).data;
}

/** Returns the error of a page that has not imported wisp-engine/hub. */
export const loadWithoutHub = () =>
  inFrame(`import { Embedder } from '/js/browser.js';
    Embedder.load('hf:o/m').catch(({ code, message }) => parent.postMessage({ code, message }, '*'));`);

/**
 * Loads a model in a frame that can store nothing.
 * @param {string} name
 * @param {string} endpoint
 */
export const loadSandboxed = (name, endpoint) =>
  inFrame(
    `import { fromHub, listCached } from '${location.origin}/js/hub-browser.js';
    const post = (what) => parent.postMessage(what, '*');
    fromHub('${name}', { endpoint: '${endpoint}' })
      .then(async ({ size }) => post({ size, kept: (await listCached()).length }))
      .catch(({ message }) => post(message));`,
    'allow-scripts',
  );

export const listNamed = async () =>
  (await listCached()).map(({ name, bytes, complete }) => ({ name, bytes, complete }));

/** @param {string} [name] */
export const deleteNamed = (name) => deleteCached(name);

/** Takes the Cache API from the page, as pages that are not secure have none. */
export function withoutCaches() {
  Object.defineProperty(globalThis, 'caches', { value: undefined, configurable: true });
}

/**
 * Lets the Cache API refuse parts as it does if there is no room for them.
 * @param {number} from
 */
export function fillDisk(from) {
  const { put } = Cache.prototype;
  Cache.prototype.put = async function (key, response) {
    const part = new URL(String(key)).searchParams.get('wisp-part');
    if (Number(part) >= from) throw new DOMException('no room', 'QuotaExceededError');
    return put.call(this, key, response);
  };
}
