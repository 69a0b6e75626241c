// SPDX-License-Identifier: Apache-2.0
// The files of a model that a program gives or that a URL names, by their paths in its folder.
import { WispError } from '../base/errors.js';
import { wrong } from '../base/options.js';
import { filesOf } from '../files/part-names.js';
import { bodySize, readParts, request, viewOf } from '../files/source.js';
import { BESIDE_GRAPHS, WEIGHTS } from '../hub/hub-folder.js';

/** @typedef {import('../../types/internal.js').FoundModel} FoundModel */

/** The name of a model whose files do not name it. */
const NAMELESS = 'model';

/** Whether a source is an object that has files by their names. @param {any} source */
const isObject = ({ kind, length, [Symbol.iterator]: each }) =>
  kind !== 'directory' && typeof length !== 'number' && !each;

/**
 * Whether a source is something of which heldModel takes several files. Options in its place are not.
 * @param {any} source
 */
export function isHeld(source) {
  if (typeof source !== 'object' || source === null || source instanceof Blob || viewOf(source)) {
    return false;
  }
  const isFile = (/** @type {unknown} */ file) => file instanceof Blob || viewOf(file);
  return !isObject(source) || Object.values(source).some(isFile);
}

/** @param {URL} url */
export const isFolderUrl = ({ protocol, pathname }) =>
  /^https?:$/.test(protocol) && pathname.endsWith('/');

/**
 * Finds the files among an input's FileList, an array of Files, a directory handle, an object or a Map of files, a Blob or
 * bytes. Returns undefined for anything else.
 * @param {any} source
 * @returns {Promise<FoundModel | undefined>}
 */
export async function heldModel(source) {
  const view = viewOf(source);
  if (view || source instanceof Blob) {
    const input = /** @type {any} */ (source).name || `${NAMELESS}.gguf`;
    return { input, files: new Map([[input, view ?? source]]) };
  }
  if (typeof source !== 'object' || source === null || source instanceof URL) return undefined;
  if (source.kind === 'directory') return inFolder(source.name, await filesIn(source, ''));
  if (source instanceof Map) return inFolder(NAMELESS, [...source]);
  if (isObject(source)) return inFolder(NAMELESS, Object.entries(source));
  /** @type {any[]} */
  const list = Array.from(source);
  const chosen = list[0]?.webkitRelativePath ?? '';
  return inFolder(
    chosen.split('/')[0] || NAMELESS,
    list.map((file) => [
      (file?.webkitRelativePath || '').replace(/^[^/]*\//, '') || file?.name,
      file,
    ]),
  );
}

/**
 * @param {string} folder
 * @param {[string, unknown][]} files
 * @returns {FoundModel}
 */
function inFolder(folder, files) {
  /** @type {Map<string, Blob | Uint8Array>} */
  const found = new Map();
  for (const [name, file] of files) {
    const held = viewOf(file) ?? file;
    if (!(held instanceof Blob || held instanceof Uint8Array) || typeof name !== 'string') {
      throw wrong(
        'source',
        `${name ? `'${name}'` : 'one of the files'} is not a File, Blob or bytes`,
      );
    }
    const path = `${folder}/${name}`;
    if (found.has(path)) {
      throw wrong(
        'source',
        `two files are called ${name}: give the folder they are in (<input type="file" webkitdirectory>, a ` +
          "directory handle, or an object { 'config.json': file, '1_Pooling/config.json': file })",
      );
    }
    found.set(path, held);
  }
  if (found.size === 0) throw wrong('source', 'there are no files');
  return { input: folder, files: found };
}

/**
 * Lists the files of a directory handle, and of the folders in it: none that is deeper belongs to a model.
 * @param {any} handle
 * @param {string} prefix
 * @returns {Promise<[string, File][]>}
 */
async function filesIn(handle, prefix) {
  /** @type {[string, File][]} */
  const files = [];
  for await (const [name, entry] of handle.entries()) {
    if (entry.kind === 'file') files.push([prefix + name, await entry.getFile()]);
    else if (!prefix) files.push(...(await filesIn(entry, `${name}/`)));
  }
  return files;
}

/** Files that a folder may have. The others that are read are named in these. */
const FILES = [
  ...['adapter_config.json', 'tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json'],
  ...['added_tokens.json', 'vocab.txt', 'vocab.json', 'merges.txt', 'tokenizer.model'],
  ...['generation_config.json', 'chat_template.jinja', 'sentence_bert_config.json'],
];

/**
 * Fetches a GGUF file, or the files of a folder, from a server. Such a server lists none, so all that a
 * folder may have are asked for.
 * @param {URL} url
 * @param {AbortSignal} signal
 * @param {(loaded: number, total: number | undefined) => void} onProgress
 * @returns {Promise<FoundModel>}
 */
export async function fetchModel(url, signal, onProgress) {
  let loaded = 0;
  /** @type {Map<string, Blob>} */
  const files = new Map();
  const path = decodedPath(url).replace(/\/+$/, '');
  const folder = path.slice(path.lastIndexOf('/') + 1) || NAMELESS;
  if (/\.gguf$/i.test(path)) {
    const parts = filesOf(folder);
    for (const part of parts) {
      const from = new URL(part === folder ? url : encodeURIComponent(part) + url.search, url);
      const blob = await fetchBlob(from, signal, (bytes, total) =>
        onProgress((loaded += bytes), parts.length > 1 ? undefined : total),
      );
      files.set(part, blob);
    }
    return { input: folder, files };
  }
  const base = new URL(url);
  base.pathname = base.pathname.replace(/\/*$/, '/');

  /**
   * @param {string} name
   * @param {boolean} [isOptional]
   */
  async function add(name, isOptional = true) {
    const from = new URL(base);
    from.pathname += name.split('/').map(encodeURIComponent).join('/');
    try {
      const blob = await fetchBlob(from, signal, (bytes) =>
        onProgress((loaded += bytes), undefined),
      );
      files.set(`${folder}/${name}`, blob);
      return blob;
    } catch (error) {
      // A server may send its start page for what it does not have.
      const isAbsent = error instanceof WispError && /^(not_found|format)$/.test(error.code);
      if (!isAbsent || !isOptional) throw error;
      return undefined;
    }
  }

  /** @param {string} name */
  const addJson = async (name) => parsed(await (await add(name))?.text());

  const modules = await addJson('modules.json');
  const paths = (Array.isArray(modules) ? modules : [])
    .map((module) => module?.path)
    .filter((path) => typeof path === 'string' && /^[^./\\][^/\\]*$/.test(path));
  const dense = paths.filter((path) => /_Dense$/.test(path));
  const isInner = modules?.[0]?.path === paths[0] && paths.length > 0;
  const proper = isInner ? `${paths[0]}/` : '';
  const config = parsed(await (await add(`${proper}config.json`, false))?.text());
  await Promise.all([
    add('config_sentence_transformers.json'),
    ...paths.slice(isInner ? 1 : 0).map((path) => add(`${path}/config.json`)),
    ...FILES.map((name) => add(proper + name)),
    /^[\w-]+$/.test(config?.model_type) && config.model_type !== 'bert'
      ? add(`${proper}sentence_${config.model_type}_config.json`)
      : undefined,
    config?.architectures?.[0] === 'HF_ColBERT' ? add(`${proper}artifact.metadata`) : undefined,
  ]);
  for (const path of dense) {
    (await add(`${path}/model.safetensors`)) ?? (await add(`${path}/pytorch_model.bin`));
  }
  for (const { whole, parts } of WEIGHTS) {
    if (await add(proper + whole)) {
      if (!parts) await Promise.all(BESIDE_GRAPHS.map((end) => add(proper + whole + end)));
      break;
    }
    const { weight_map: map = {} } =
      (parts && (await addJson(`${proper}${whole}.index.json`))) || {};
    const shards = new Set(
      Object.values(map).filter((name) => /^[^./\\][^/\\]*$/.test(String(name))),
    );
    for (const name of shards) await add(proper + name);
    if (shards.size > 0) break;
  }
  return { input: folder, files };
}

/**
 * Returns the path of an address. One with a % that encodes nothing stays as it is.
 * @param {URL} url
 */
function decodedPath({ pathname }) {
  try {
    return decodeURIComponent(pathname);
  } catch {
    return pathname;
  }
}

/**
 * Parses JSON. A text that is not JSON is reported when it is converted.
 * @param {string | undefined} text
 */
function parsed(text) {
  try {
    return text && JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * @param {URL} url
 * @param {AbortSignal} signal
 * @param {(bytes: number, total: number | undefined) => void} onPart gets the bytes of a part
 */
async function fetchBlob(url, signal, onPart) {
  const response = await request(url, signal);
  const total = bodySize(response);
  /** @type {Blob[]} */
  const parts = [];
  const body = /** @type {ReadableStream<Uint8Array>} */ (response.body);
  await readParts(body, url.href, signal, (part) => {
    parts.push(new Blob([/** @type {any} */ (part)]));
    onPart(part.length, total);
  });
  return new Blob(parts);
}
