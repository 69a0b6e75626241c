// SPDX-License-Identifier: Apache-2.0
// wisp-engine/convert as a browser imports it: Hugging Face folders as files, URLs or names become GGUF files.
import {
  convertInLoad,
  moduleOf,
  noWorker,
  runTask,
  settingsOf,
  stoppable,
} from './convert/convert.js';
import { fetchModel, heldModel, isFolderUrl, isHeld } from './convert/convert-source.js';
import { resolve } from './files/files.js';
import { partOf } from './files/part-names.js';
import { parseName } from './hub/hub.js';
import { filesFromHub } from './hub-browser.js';
import { chooseFolder } from './hub/hub-folder.js';
import { platform } from './platform/platform-browser.js';
import { wrongSource } from './files/source.js';

export { WispError } from './base/errors.js';

/** @typedef {import('../types/convert.js').ConvertOptions} ConvertOptions */

/** A page may load its scripts over a slow line. */
const START_MS = 60_000;

const ownModule = () => new URL('./wisp-convert.wasm', import.meta.url);

// Bundlers recognise exactly this expression.
const ownWorker = () =>
  new Worker(new URL('./convert-worker-browser.js', import.meta.url), {
    type: 'module',
    name: 'wisp',
  });

/**
 * Converts a model to a GGUF file.
 * @param {import('../types/convert.js').ConvertSource} source
 * @param {ConvertOptions} [options]
 * @returns {Promise<Blob>}
 */
export async function convert(source, options = {}) {
  const settings = settingsOf(options);
  const { wasm, worker, startTimeout = START_MS, onProgress } = options;
  const without = platform.noWorkers();
  if (without) throw noWorker(without);
  return stoppable(options.signal, async (signal) => {
    const [module, model] = await Promise.all([
      moduleOf(platform, ownModule, wasm, signal),
      find(source, options, signal),
    ]);
    return runTask(
      platform.startWorker(ownWorker, /** @type {any} */ (worker), startTimeout),
      { module, ...model, name: 'the output', options: settings },
      signal,
      onProgress,
    );
  });
}

/**
 * @param {any} source
 * @param {ConvertOptions} options
 * @param {AbortSignal} signal
 * @returns {Promise<import('../types/internal.js').FoundModel>}
 */
async function find(source, { onProgress, revision, endpoint, token, offline }, signal) {
  const report = (/** @type {number} */ loaded, /** @type {number | undefined} */ total) =>
    onProgress?.({ phase: 'files', loaded, total });
  if (/^hf:/.test(String(source))) {
    const options = { revision, endpoint, token, offline, signal };
    const { repo } = parseName(String(source), { revision });
    const folder = repo.slice(repo.indexOf('/') + 1);
    const files = await filesFromHub(
      String(source),
      { ...options, onProgress: ({ loaded, total }) => report(loaded, total) },
      chooseFolder,
    );
    const [[name], ...others] = files;
    if (others.length === 0 || partOf(name)) return { input: name, files };
    return {
      input: folder,
      files: new Map(Array.from(files, ([path, file]) => [`${folder}/${path}`, file])),
    };
  }
  if (typeof source === 'string' || source instanceof URL) {
    return fetchModel(resolve(source, 'source'), signal, report);
  }
  const model = await heldModel(source);
  if (!model) throw wrongSource(source);
  return model;
}

/** @param {any} source whether Embedder.load cannot read it as it is */
function isFolder(source) {
  if (typeof source !== 'string' && !(source instanceof URL)) return isHeld(source);
  return !/^hf:/.test(String(source)) && isFolderUrl(resolve(source, 'source'));
}

convertInLoad(platform, convert, isFolder);
