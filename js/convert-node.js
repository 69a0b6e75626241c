// SPDX-License-Identifier: Apache-2.0
// wisp-engine/convert as Node imports it: Hugging Face folders become GGUF files.
import { stat } from 'node:fs/promises';
import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { convertInLoad, moduleOf, runTask, settingsOf, stoppable } from './convert/convert.js';
import { fetchModel, heldModel, isFolderUrl, isHeld } from './convert/convert-source.js';
import { WispError } from './base/errors.js';
import { parseName } from './hub/hub.js';
import { folderFromHub } from './hub/hub-node.js';
import { checkString, wrong } from './base/options.js';
import { OutputFile, onlyKind } from './files/output-node.js';
import { asUrl, platform } from './platform/platform-node.js';
import { wrongSource } from './files/source.js';

export { WispError } from './base/errors.js';

/** @typedef {import('../types/convert.js').ConvertOptions & { output?: string | undefined, force?: boolean | undefined }} ConvertOptions */

const ownModule = () => new URL('./wisp-convert.wasm', import.meta.url);

// Bundlers recognise exactly this expression.
const ownWorker = () =>
  new Worker(new URL('./convert-worker-node.js', import.meta.url), {
    name: 'wisp',
    execArgv: [],
  });

/**
 * Converts a model to a GGUF file.
 * @param {import('../types/convert.js').ConvertSource} source
 * @param {ConvertOptions} [options]
 * @returns {Promise<any>} the path of the output, or bytes if none was given
 */
export async function convert(source, options = {}) {
  const settings = settingsOf(options);
  const { output, force, wasm, worker, onProgress } = options;
  if (output !== undefined) {
    checkString(output, 'output');
    if (output === '') throw wrong('output', 'the path is empty');
  }
  if (force !== undefined && typeof force !== 'boolean') throw wrong('force', 'not true or false');
  return stoppable(options.signal, async (signal) => {
    const check = force ? undefined : onlyKind(String(output), 'output', 'a GGUF file', 'GGUF');
    const file = output === undefined ? undefined : new OutputFile(output, 'output', check);
    try {
      await file?.open();
      const [module, { input, files, modelName }] = await Promise.all([
        moduleOf(platform, ownModule, wasm, signal),
        find(source, options, signal),
      ]);
      const bytes = await runTask(
        platform.startWorker(ownWorker, /** @type {any} */ (worker), 0),
        {
          module,
          input,
          files,
          name: output ?? 'the output',
          options: { ...settings, name: settings.name ?? modelName },
          descriptor: file?.descriptor,
        },
        signal,
        onProgress,
      );
      await file?.commit();
      return file ? output : bytes;
    } finally {
      await file?.discard();
    }
  });
}

/**
 * @param {any} source
 * @param {ConvertOptions} options
 * @param {AbortSignal} signal
 * @returns {Promise<import('../types/internal.js').FoundModel>}
 */
async function find(source, options, signal) {
  const { onProgress, revision, endpoint, token, cacheDir, offline } = options;
  const report = (/** @type {number} */ loaded, /** @type {number | undefined} */ total) =>
    onProgress?.({ phase: 'files', loaded, total });
  if (typeof source !== 'string' && !(source instanceof URL)) {
    const model = await heldModel(source);
    if (!model) throw wrongSource(source);
    return inMemory(model);
  }
  const url = asUrl(source);
  if (url?.protocol === 'hf:') {
    const path = await folderFromHub(url.href, {
      ...{ revision, endpoint, token, cacheDir, offline, signal },
      onProgress: ({ loaded, total }) => report(loaded, total),
    });
    const isFolder = !/\.gguf$/i.test(path);
    const { repo } = parseName(url.href, { revision });
    const name = repo.slice(repo.indexOf('/') + 1);
    return { input: slashed(path), modelName: isFolder ? name : undefined };
  }
  if (url && url.protocol !== 'file:') return inMemory(await fetchModel(url, signal, report));
  const path = url ? fileURLToPath(url) : String(source);
  if (path === '') throw wrong('source', 'the path is empty');
  if (path.includes('\0')) throw wrong('source', 'the path has a NUL character');
  return { input: slashed(path) };
}

/** The module divides paths at slashes. @param {string} path */
const slashed = (path) => path.replaceAll(sep, '/');

/**
 * Node reads no Blob synchronously, as the module does.
 * @param {import('../types/internal.js').FoundModel} model
 */
async function inMemory({ input, files = new Map() }) {
  /** @type {Map<string, Uint8Array>} */
  const read = new Map();
  for (const [path, file] of files) {
    read.set(path, file instanceof Uint8Array ? file : await readBlob(file, path));
  }
  return { input, files: read };
}

/**
 * @param {Blob} blob perhaps of a file on the disk, which may have changed or gone (fs.openAsBlob)
 * @param {string} path its name in errors
 */
async function readBlob(blob, path) {
  try {
    return new Uint8Array(await blob.arrayBuffer());
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    throw new WispError('io', `${path}: cannot be read: ${message}`, { field: 'source', cause });
  }
}

/** @param {any} source @returns {Promise<boolean>} whether Embedder.load cannot read it as it is */
async function isFolder(source) {
  if (typeof source !== 'string' && !(source instanceof URL)) return isHeld(source);
  const url = asUrl(source);
  if (url && url.protocol !== 'file:') return isFolderUrl(url);
  return (await stat(url ?? source).catch(() => undefined))?.isDirectory() ?? false;
}

convertInLoad(platform, convert, isFolder);
