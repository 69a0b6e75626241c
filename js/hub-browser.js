// SPDX-License-Identifier: Apache-2.0
// wisp-engine/hub as a browser imports it: models by name or URL, which the browser keeps.
import { WispError, throwIfAborted } from './base/errors.js';
import { resolve } from './files/files.js';
import { joinedBlob } from './files/joined.js';
import { filesOf, isSameModel, partOf } from './files/part-names.js';
import {
  HUB,
  HubError,
  ask,
  checkPath,
  chooseFile,
  fileUrl,
  isCommit,
  isOutage,
  list,
  parseName,
} from './hub/hub.js';
import { checkConfig } from './hub/hub-architecture.js';
import { download, stateOf } from './hub/hub-download.js';
import {
  NOWHERE,
  PART_BYTES,
  deleteKeys,
  getKept,
  listKept,
  openStore,
  putAbout,
} from './hub/hub-store.js';
import { checkOptions } from './base/options.js';
import { platform } from './platform/platform-browser.js';

export { WispError } from './base/errors.js';

/** @typedef {import('../types/hub.js').HubOptions} HubOptions */
/** @typedef {import('../types/hub-browser.js').UrlOptions} UrlOptions */
/** @typedef {import('./hub/hub-store.js').Store} Store */
/** @typedef {import('./hub/hub-download.js').Wanted} Wanted */

/**
 * Finds a model by its name, `[hf:]owner/name[@revision][/file.gguf]`: in the browser's store, else on the Hub.
 * @param {string} name
 * @param {HubOptions} [options]
 * @returns {Promise<Blob>}
 */
export async function fromHub(name, options = {}) {
  const files = await filesFromHub(name, options, (all, model) =>
    filesOf(model.file ?? chooseFile(all, model)),
  );
  return onlyBlob(files);
}

/**
 * Returns the model of one file or several.
 * @param {ReadonlyMap<string, Blob>} files
 */
async function onlyBlob(files) {
  const [first] = files.values();
  return files.size === 1 ? /** @type {Blob} */ (first) : joinedBlob(files);
}

/**
 * Finds the files of a repository that `choose` chooses.
 * @param {string} name
 * @param {HubOptions} options
 * @param {import('./hub/hub.js').Choose} choose
 * @returns {Promise<Map<string, Blob>>} by their paths
 */
export async function filesFromHub(name, options, choose) {
  const model = parseName(name, options);
  const { signal, token, onProgress, offline } = options;
  throwIfAborted(signal);
  const endpoint = (options.endpoint ?? HUB).replace(/\/+$/, '');
  const store = await openStore();
  const { repo, revision } = model;
  if (isCommit(revision) && model.file && !partOf(model.file)) {
    const wanted = { url: fileUrl(endpoint, { ...model, file: model.file }), state: 'hub' };
    const kept = await getKept(store, wanted);
    if (kept) return new Map([[model.file, told(kept, onProgress)]]);
  }
  let listing;
  try {
    if (offline) throw new HubError('not_found', notKept(name), 0); // as if no server answers
    listing = await list(endpoint, model, { signal, token });
  } catch (error) {
    const kept = isOutage(error) && (await findKept(store, endpoint, model, choose));
    if (!kept) throw error;
    for (const blob of kept.values()) told(blob, onProgress);
    return kept;
  }
  const { commit, files } = listing;
  const chosen = choose([...files.keys()], model);
  const all = chosen.reduce((sum, file) => sum + (files.get(file)?.size ?? NaN), 0) || undefined;
  let before = 0;
  const found = new Map();
  for (const file of chosen) {
    checkPath(file, 'file');
    const about = files.get(file);
    if (!about) {
      const others = [...files.keys()].filter((other) => other.endsWith('.gguf'));
      throw new WispError(
        'not_found',
        `${repo}@${revision} has no file ${file}; its models: ${others.join(', ') || 'none'}`,
        { field: 'file' },
      );
    }
    const url = fileUrl(endpoint, { repo, revision: commit, file });
    const blob = await keep(
      store,
      { ...about, url, state: 'hub', revision },
      {
        ...options,
        onProgress: ({ loaded, total }) =>
          onProgress?.({ loaded: before + loaded, total: all ?? total }),
      },
    );
    if (file === 'config.json') checkConfig(await blob.text(), url);
    before += blob.size;
    found.set(file, blob);
  }
  return found;
}

/** @param {string} name */
const notKept = (name) =>
  `${name} is not in this browser's store, and offline nothing is fetched: load it once with a connection`;

/**
 * Finds what was last loaded under a name: files of one commit, since a page that closed may have left some of the next.
 * @param {Store} store
 * @param {string} endpoint
 * @param {import('./hub/hub.js').ModelName} model
 * @param {import('./hub/hub.js').Choose} choose
 */
async function findKept(store, endpoint, model, choose) {
  const { repo, revision } = model;
  const start = fileUrl(endpoint, { repo, revision: '', file: '' }).replace(/\/+$/, '/');
  const kept = (await listKept(store)).filter(
    ({ url, state, about }) =>
      state === 'hub' &&
      url.startsWith(start) &&
      (about?.revisions.includes(revision) || url.startsWith(`${start}${revision}/`)),
  );
  for (const commit of new Set(kept.map((entry) => nameOf(entry).commit))) {
    const entries = kept.filter((entry) => nameOf(entry).commit === commit);
    const found = await findChosen(store, entries, model, choose);
    if (found) return found;
  }
  return undefined;
}

/**
 * Returns the files of a commit's model. Undefined if one is absent.
 * @param {Store} store
 * @param {Awaited<ReturnType<typeof listKept>>} kept
 * @param {import('./hub/hub.js').ModelName} model
 * @param {import('./hub/hub.js').Choose} choose
 */
async function findChosen(store, kept, model, choose) {
  const entries = new Map(kept.map((entry) => [nameOf(entry).file, entry]));
  const found = new Map();
  let files;
  try {
    files = choose([...entries.keys()], model);
  } catch (error) {
    if (/** @type {WispError} */ (error).code === 'argument') throw error; // which of several must be said
    return undefined;
  }
  for (const file of files) {
    const entry = entries.get(file);
    const blob = entry && (await getKept(store, entry));
    if (!blob) return undefined;
    found.set(file, blob);
  }
  return found;
}

/**
 * Returns what a kept model is called.
 * @param {{ url: string, state: string }} kept
 */
function nameOf({ url, state }) {
  const [, repo, commit, path] = /([^/]+\/[^/]+)\/resolve\/([^/]+)\/([^?]+)/.exec(url) ?? [];
  if (state !== 'hub' || !repo) return { name: url, repo: url, commit: '', file: '' };
  const file = decodeURIComponent(path);
  return { name: `hf:${repo}@${commit}/${file}`, repo, commit, file };
}

/**
 * Fetches a model from any URL, and keeps it. The next time the server is only asked whether it is still the same;
 * if it does not say, or cannot be reached, the kept one is taken.
 * @param {string | { readonly href: string }} url
 * @param {UrlOptions} [options]
 * @returns {Promise<Blob>}
 */
export async function fromUrl(url, options = {}) {
  checkOptions(options, ['offline', 'signal', 'onProgress']);
  throwIfAborted(options.signal);
  const { href, protocol } = resolve(typeof url === 'string' ? url : url.href, 'url');
  if (!/^https?:$/.test(protocol)) {
    throw new WispError('argument', `${href} is not fetched from a server: load it as it is`, {
      field: 'url',
    });
  }
  const store = await openStore();
  /** @type {Map<string, Blob>} */
  const files = new Map();
  const reach = { offline: options.offline };
  for (const part of urlsOf(href)) {
    files.set(part, await fileFromUrl(store, part, options, reach, files.size === 0));
  }
  return onlyBlob(files);
}

/**
 * Returns the addresses of all files of a model, of which the first is named.
 * @param {string} href
 */
function urlsOf(href) {
  const [, path, rest] = /** @type {string[]} */ (/^([^?#]*)(.*)$/s.exec(href));
  return filesOf(path).map((part) => part + rest);
}

/**
 * @param {Store} store
 * @param {string} href
 * @param {UrlOptions} options
 * @param {{ offline?: boolean | undefined }} reach is set offline if the server cannot be reached for the first file of a
 *   model: the others are then those that are kept, too, and otherwise none is, lest files of two states are joined
 * @param {boolean} isFirst
 * @returns {Promise<Blob>}
 */
async function fileFromUrl(store, href, options, reach, isFirst) {
  const { signal, onProgress } = options;
  const kept = (await listKept(store)).find((entry) => entry.url === href && entry.about);
  const blob = kept && (await getKept(store, kept));
  if (reach.offline) {
    if (blob) return told(blob, onProgress);
    throw new WispError('not_found', notKept(href));
  }
  /** @type {string | undefined} */
  let state;
  try {
    const { headers } = await ask(href, { method: 'HEAD', cache: 'no-cache' }, { signal });
    state = stateOf(headers);
  } catch (error) {
    // A server may refuse to say anything of a file that it sends.
    const refuses = error instanceof HubError && error.code !== 'not_found' && !isOutage(error);
    reach.offline = Boolean(blob) && isFirst && isOutage(error);
    if (!refuses && !reach.offline) throw error;
  }
  if (blob && (state === undefined || state === kept?.state)) return told(blob, onProgress);
  return keep(store, { url: href, state: state ?? '', revision: '' }, options);
}

/**
 * Takes a model from the store, else fetches and stores it. Other pages wait meanwhile.
 * @param {Store} store
 * @param {Wanted} wanted
 * @param {HubOptions} options
 * @returns {Promise<Blob>}
 */
async function keep(store, wanted, options) {
  const run = async () => {
    const { url, state, revision } = wanted;
    let blob = await getKept(store, wanted);
    const isNew = !blob;
    blob ??= await download(store, wanted, options);
    const all = await listKept(store);
    const own = all.find((entry) => entry.url === url && entry.state === state);
    const revisions = new Set(own?.about?.revisions).add(revision);
    if (isNew || revisions.size > (own?.about?.revisions.length ?? 0)) {
      const about = { url, state, size: blob.size, revisions: [...revisions] };
      // A page without room for all parts has the model, and fetches the rest again the next time.
      const isWhole = (own?.keys.length ?? 0) >= Math.ceil(blob.size / PART_BYTES);
      if (isWhole) await putAbout(store, about).catch(() => {});
    }
    for (const entry of all) if (entry !== own) await moveOn(store, entry, wanted);
    return told(blob, options.onProgress);
  };
  const { signal } = options;
  const locks = globalThis.navigator?.locks;
  // Pages that can store nothing may not hold locks either.
  if (!locks || store === NOWHERE) return run();
  try {
    return await locks.request(`wisp-engine ${wanted.url}`, { signal }, run);
  } catch (error) {
    throwIfAborted(signal); // while it waited
    throw error;
  }
}

/**
 * Takes a revision's name from a model that had it before, and deletes that if it has no other.
 * @param {Store} store
 * @param {Awaited<ReturnType<typeof listKept>>[number]} entry
 * @param {Wanted} wanted
 */
async function moveOn(store, entry, wanted) {
  const [old, now] = [nameOf(entry), nameOf(wanted)];
  if (old.repo !== now.repo || old.file !== now.file) return;
  const others = entry.about?.revisions.filter((name) => name !== wanted.revision) ?? [];
  if (others.length === 0) await deleteKeys(store, entry.keys);
  else if (entry.about) await putAbout(store, { ...entry.about, revisions: others });
}

/**
 * Says that all bytes are here.
 * @param {Blob} blob
 * @param {HubOptions['onProgress']} onProgress
 */
function told(blob, onProgress) {
  onProgress?.({ loaded: blob.size, total: blob.size });
  return blob;
}

const { readModel } = platform;

// load('hf:...') and load() of the first of several files work in pages that import this module. An import() in
// platform-browser.js would divide bundles, which Rollup refuses to do for a single file.
platform.readModel = async (own, source, reading) => {
  const name = typeof source === 'string' || source instanceof URL ? String(source) : '';
  const isNamed = /^hf:/.test(name);
  if (!isNamed && !partOf(name.replace(/[?#].*$/s, ''))) return readModel(own, source, reading);
  const { signal, progress } = reading;
  const blob = await (isNamed ? fromHub : fromUrl)(name, {
    signal,
    onProgress: ({ loaded, total }) => progress(loaded, total),
  });
  return readModel(own, blob, { ...reading, progress() {} }); // the second pass over the bytes does not count as progress
};

/**
 * Lists the models that the browser keeps.
 * @returns {Promise<import('../types/hub.js').CachedModel[]>}
 */
export async function listCached() {
  const store = await openStore();
  const models = [];
  const all = await listKept(store);
  for (const entry of all) {
    // The small files of a folder are not models; they are deleted with their repository.
    if (entry.state === 'hub' && /\.(json|txt|jinja|model)$/.test(nameOf(entry).file)) continue;
    const part = partOf(nameOf(entry).file);
    if (part && part.part > 1) continue; // it belongs to the first
    const files = new Map();
    let bytes = 0;
    for (const file of all.filter((other) => isSameModel(nameOf(other).name, nameOf(entry).name))) {
      const blob = await getKept(store, file);
      if (blob) files.set(nameOf(file).file, blob);
      bytes += blob?.size ?? (file.keys.length - (file.about ? 1 : 0)) * PART_BYTES;
    }
    const complete = files.size === (part?.count ?? 1);
    const sorted = new Map([...files].sort());
    const source = complete ? await onlyBlob(sorted) : undefined;
    models.push({ name: nameOf(entry).name, source, bytes, complete });
  }
  return models;
}

/**
 * Deletes models that the browser keeps: all, those of a repository or URL, or one by the name that listCached
 * gives.
 * @param {string | URL} [name]
 * @returns {Promise<number>} bytes that are free now
 */
export async function deleteCached(name) {
  const store = await openStore();
  const wanted = name === undefined ? '' : String(name).replace(/^hf:/, '');
  let freed = 0;
  for (const entry of await listKept(store)) {
    const own = nameOf(entry);
    const isMeant = (/** @type {string} */ name) => isSameModel(name, wanted);
    if (wanted && ![own.name.replace(/^hf:/, ''), own.repo, entry.url].some(isMeant)) continue;
    for (const key of entry.keys) freed += (await store.get(key))?.size ?? 0;
    await deleteKeys(store, entry.keys);
  }
  return freed;
}
