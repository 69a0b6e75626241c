// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of conversions run inside a page.
import { Embedder } from '../../../js/browser.js';
import { convert } from '../../../js/convert-browser.js';
import { standInForHub } from './hub-stand-in.mjs';

/** @typedef {'list' | 'object' | 'handle' | 'url' | 'hf'} Kind */

/**
 * Returns a source of the model in tests/data/models of that name, whose files are `paths`.
 * @param {Kind} kind
 * @param {string} name
 * @param {string[]} paths
 * @returns {Promise<any>}
 */
async function sourceOf(kind, name, paths) {
  const folder = `/tests/data/models/${name}/`;
  if (kind === 'url') return folder;
  if (kind === 'hf') return `hf:o/${name}`;
  /** @type {[string, Blob][]} */
  const files = [];
  for (const path of paths) files.push([path, await (await fetch(folder + path)).blob()]);
  if (kind === 'object') return Object.fromEntries(files);
  if (kind === 'list') {
    return files.map(([path, blob]) => {
      const file = new File([blob], /** @type {string} */ (path.split('/').at(-1)));
      // A page cannot choose a folder by itself.
      Object.defineProperty(file, 'webkitRelativePath', { value: `${name}/${path}` });
      return file;
    });
  }
  const root = await navigator.storage.getDirectory();
  const handle = await root.getDirectoryHandle(name, { create: true });
  for (const [path, blob] of files) {
    const parts = path.split('/');
    const last = /** @type {string} */ (parts.pop());
    let place = handle;
    for (const part of parts) place = await place.getDirectoryHandle(part, { create: true });
    const writable = await (await place.getFileHandle(last, { create: true })).createWritable();
    await writable.write(blob);
    await writable.close();
  }
  return handle;
}

/** @param {Blob} blob */
async function hashOf(blob) {
  const digest = await crypto.subtle.digest('SHA-256', await blob.arrayBuffer());
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {any} error */
const describeError = ({ name, code, field, message }) => ({ name, code, field, message });

/**
 * Converts a model, and returns the hash of the file and the phases that were reported.
 * @param {Kind} kind
 * @param {string} name
 * @param {string[]} paths
 * @param {any} [options]
 */
export async function convertModel(kind, name, paths, options) {
  try {
    /** @type {Set<string>} */
    const phases = new Set();
    const source = await sourceOf(kind, name, paths);
    const onProgress = (/** @type {any} */ { phase }) => void phases.add(phase);
    const blob = await convert(source, { ...options, onProgress });
    return { hash: await hashOf(blob), phases: [...phases] };
  } catch (error) {
    return describeError(error);
  }
}

/**
 * Loads a model that is not a GGUF file, and one that was converted; returns the rows of both.
 * @param {Kind} kind
 * @param {string} name
 * @param {string[]} paths
 * @param {string} [endpoint] takes the place of the Hub
 */
export async function loadConverted(kind, name, paths, endpoint) {
  const end = endpoint ? standInForHub(endpoint) : () => {};
  try {
    const source = await sourceOf(kind, name, paths);
    const files = await sourceOf('object', name, paths);
    const rows = [];
    for (const model of [source, await convert(files)]) {
      const embedder = await Embedder.load(model, { workers: 1 });
      rows.push([...(await embedder.embed('find the water')).values()]);
      await embedder.close();
    }
    return rows;
  } finally {
    end();
  }
}

/**
 * Converts what is broken or aborted, many times, and then something good.
 * @param {string} name
 * @param {string[]} paths
 * @param {number} times
 */
export async function convertBroken(name, paths, times) {
  const files = await sourceOf('object', name, paths);
  const broken = { ...files, 'model.safetensors': files['model.safetensors'].slice(0, 5000) };
  /** @type {Set<string>} */
  const errors = new Set();
  for (let i = 0; i < times; i++) {
    await convert(broken).catch((error) => errors.add(`${error.code} ${error.message}`));
    const stop = new AbortController();
    await convert(files, { signal: stop.signal, onProgress: () => stop.abort() }).catch((error) =>
      errors.add(`${error.name} ${error.code}`),
    );
  }
  return { errors: [...errors], hash: await hashOf(await convert(files, { name })) };
}

/** @param {string} name @param {string[]} paths @param {number} times */
export async function convertOften(name, paths, times) {
  const files = await sourceOf('object', name, paths);
  for (let i = 0; i < times; i++) await convert(files, { type: 'q8_0' });
}

/** Returns the error of a page that starts no workers. @param {string} name @param {string[]} paths */
export async function convertWithoutWorkers(name, paths) {
  const files = await sourceOf('object', name, paths);
  const { Worker } = globalThis;
  globalThis.Worker = /** @type {any} */ (undefined);
  try {
    return await convert(files).then(String, describeError);
  } finally {
    globalThis.Worker = Worker;
  }
}
