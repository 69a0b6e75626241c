// SPDX-License-Identifier: Apache-2.0
// Models by name in Node, in the cache of huggingface_hub.
import { open, readFile, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { WispError, onAbort, throwIfAborted } from '../base/errors.js';
import { filesOf, isSameModel, partOf } from '../files/part-names.js';
import { Silence, checkEndless, limits } from '../files/silence.js';
import {
  HUB,
  HubError,
  ask,
  REDIRECTED,
  checkMagic,
  checkName,
  checkPath,
  checkToken,
  chooseFile,
  fileUrl,
  isCommit,
  isOutage,
  list,
  parseName,
  plain,
  readAll,
  sleep,
  wrongHash,
  wrongLength,
} from './hub.js';
import { RepoCache, deleteModels, exists, finish, leave, listModels } from './hub-cache.js';
import { checkArchitecture, checkConfig } from './hub-architecture.js';
import { chooseFolder, hasWeights } from './hub-folder.js';
import { checkOptions } from '../base/options.js';

/** @typedef {import('../../types/hub.js').HubOptions} HubOptions */

/** @typedef {import('./hub.js').ModelName & { file: string }} ModelFile */

/** Between looks at what another process downloads. */
const POLL_SECONDS = 0.1;

const env = () => process.env;

/** @param {string | undefined} value */
const isOn = (value) => /^(1|on|yes|true)$/i.test(value ?? '');

/** @param {string} path */
export const expanded = (path) =>
  path
    .replace(/\$(?:(\w+)|\{([^}]*)\})/g, (whole, a, b) => env()[a ?? b] ?? whole)
    .replace(/^~(?=$|[/\\])/, () => homedir());

/** The variables of the environment, as huggingface_hub reads them. */
function home() {
  const { HF_HOME, XDG_CACHE_HOME = join(homedir(), '.cache') } = env();
  return expanded(HF_HOME ?? join(XDG_CACHE_HOME, 'huggingface'));
}

/** @param {HubOptions} options */
function cacheFolder({ cacheDir }) {
  if (cacheDir !== undefined) return cacheDir;
  const { HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE } = env();
  return expanded(HF_HUB_CACHE ?? HUGGINGFACE_HUB_CACHE ?? join(home(), 'hub'));
}

/** @param {HubOptions} options */
async function findToken({ token }) {
  if (token !== undefined) return token || undefined;
  const { HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN } = env();
  if (isOn(HF_HUB_DISABLE_IMPLICIT_TOKEN)) return undefined;
  const given = HF_TOKEN || HUGGING_FACE_HUB_TOKEN;
  const path = expanded(HF_TOKEN_PATH ?? join(home(), 'token'));
  const found = given || (await readFile(path, 'utf8').catch(() => ''));
  const clean = found.replaceAll(/[\r\n]/g, '').trim() || undefined;
  checkToken(clean);
  return clean;
}

/**
 * Finds a model by its name, `[hf:]owner/name[@revision][/file.gguf]`: in the cache, else on the Hub.
 * @param {string} name
 * @param {HubOptions} [options]
 * @returns {Promise<string>} its path
 */
export function fromHub(name, options = {}) {
  return find(name, options, findKept, fetchModel);
}

/**
 * Finds what a GGUF file is made of: the folder of a repository's configuration, tokenizer and weights. A repository
 * that has no such weights, and a name with a file, give the path of a GGUF file.
 * @param {string} name
 * @param {HubOptions} [options]
 * @returns {Promise<string>} its path
 */
export function folderFromHub(name, options = {}) {
  return find(name, options, findKeptFolder, fetchFolder);
}

/**
 * @param {string} name
 * @param {HubOptions} options
 * @param {typeof findKept} find in the cache
 * @param {(...given: Parameters<typeof fetchFolder>) => Promise<string>} fetch
 */
async function find(name, options, find, fetch) {
  const model = parseName(name, options);
  const { signal, onProgress } = options;
  throwIfAborted(signal);
  const { HF_ENDPOINT, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE, HF_HUB_DISABLE_SYMLINKS } = env();
  const endpoint = (options.endpoint ?? HF_ENDPOINT ?? HUB).replace(/\/+$/, '');
  const offline = options.offline ?? isOn(HF_HUB_OFFLINE || TRANSFORMERS_OFFLINE);
  const folder = cacheFolder(options);
  const cache = new RepoCache(folder, model.repo);
  try {
    if (offline) return await find(cache, model, folder);
    const hub = { endpoint, signal, token: await findToken(options) };
    return await fetch(hub, cache, model, !isOn(HF_HUB_DISABLE_SYMLINKS), onProgress);
  } catch (error) {
    if (isOutage(error)) return find(cache, model, folder).catch(() => Promise.reject(error));
    throw ofCache(folder, error);
  }
}

/**
 * Returns an error of the file system as one of the cache. Others, such as what onProgress threw, stay as they are.
 * @param {string} folder
 * @param {unknown} error
 */
function ofCache(folder, error) {
  const { message, syscall } = /** @type {NodeJS.ErrnoException} */ (error);
  if (error instanceof WispError || !syscall) return error;
  return new WispError('io', `the cache ${folder}: ${message}`, { cause: error });
}

/**
 * Runs work on a cache.
 * @template T
 * @param {{ cacheDir?: string }} options
 * @param {(folder: string) => Promise<T>} work
 */
async function withCache(options, work) {
  checkOptions(options, ['cacheDir']);
  const folder = cacheFolder(options);
  return work(folder).catch((error) => {
    throw ofCache(folder, error);
  });
}

/**
 * @param {RepoCache} cache
 * @param {import('./hub.js').ModelName} model
 * @param {string} folder
 */
async function findKept(cache, model, folder) {
  const commit = await cache.commitOf(model.revision);
  const files = commit ? await cache.files(commit) : [];
  const file = model.file ?? (files.length > 0 ? chooseFile(files, model) : '');
  if (commit && filesOf(file).every((part) => files.includes(part)))
    return cache.snapshot(commit, file);
  const { repo, revision } = model;
  throw new WispError(
    'not_found',
    `${repo}@${revision}${file && `/${file}`} is not in the cache ${folder}, and offline (HF_HUB_OFFLINE) ` +
      'nothing is fetched: load it once with a connection, or name another cache (HF_HOME)',
  );
}

/** @type {typeof findKept} */
async function findKeptFolder(cache, model, folder) {
  const commit = await cache.commitOf(model.revision);
  const files = commit && !model.file ? await cache.files(commit) : [];
  return commit && hasWeights(files) ? cache.snapshot(commit, '') : findKept(cache, model, folder);
}

/**
 * @typedef {object} Hub
 * @property {string} endpoint
 * @property {AbortSignal} [signal]
 * @property {string} [token]
 */

/**
 * @param {Hub} hub
 * @param {RepoCache} cache
 * @param {import('./hub.js').ModelName} model
 * @param {boolean} links
 * @param {HubOptions['onProgress']} onProgress
 */
async function fetchModel(hub, cache, model, links, onProgress) {
  let { file } = model;
  if (file && !partOf(file)) return fetchFile(hub, cache, { ...model, file }, links, onProgress);
  if (file && isCommit(model.revision)) {
    const kept = await Promise.all(
      filesOf(file).map((part) => exists(cache.snapshot(model.revision, part))),
    );
    if (kept.every(Boolean)) return cache.snapshot(model.revision, file); // a commit does not change
  }
  const { commit, files } = await list(hub.endpoint, model, hub);
  file ??= chooseFile([...files.keys()], model);
  const parts = filesOf(file);
  if (parts.length > 1)
    return fetchAll(hub, cache, model, { commit, files }, parts, links, onProgress);
  checkPath(file, 'file');
  return fetchFile(hub, cache, { ...model, file }, links, onProgress);
}

/**
 * Fetches one file.
 * @param {Hub} hub
 * @param {RepoCache} cache
 * @param {ModelFile} model
 * @param {boolean} links
 * @param {HubOptions['onProgress']} onProgress
 */
async function fetchFile(hub, cache, model, links, onProgress) {
  const { revision, file } = model;
  if (isCommit(revision)) {
    const path = cache.snapshot(revision, file);
    if (await exists(path)) return path; // a commit does not change
  }
  const about = await look(hub, model);
  const path = cache.snapshot(about.commit, file);
  if (await exists(path)) {
    await cache.setCommit(revision, about.commit).catch(() => {}); // the cache may be read-only
    return path;
  }
  const isNew = await download(hub, cache, model, about, onProgress);
  await cache.setCommit(revision, about.commit);
  return cache.point(about.etag, about.commit, file, { links, isNew });
}

/**
 * @param {Hub} hub
 * @param {RepoCache} cache
 * @param {import('./hub.js').ModelName} model
 * @param {boolean} links
 * @param {HubOptions['onProgress']} onProgress
 */
async function fetchFolder(hub, cache, model, links, onProgress) {
  const listing = await list(hub.endpoint, model, hub);
  const chosen = chooseFolder([...listing.files.keys()], model);
  const path = await fetchAll(hub, cache, model, listing, chosen, links, onProgress);
  return /\.gguf$/i.test(path) ? path : cache.snapshot(listing.commit, '');
}

/**
 * Fetches files of a commit. Returns the path of the first.
 * @param {Hub} hub
 * @param {RepoCache} cache
 * @param {import('./hub.js').ModelName} model
 * @param {import('./hub.js').Listing} listing
 * @param {readonly string[]} chosen
 * @param {boolean} links
 * @param {HubOptions['onProgress']} onProgress
 */
async function fetchAll(hub, cache, model, { commit, files }, chosen, links, onProgress) {
  const total = chosen.reduce((sum, file) => sum + (files.get(file)?.size ?? NaN), 0) || undefined;
  let before = 0;
  for (const file of chosen) {
    checkPath(file, 'file');
    const wanted = { ...model, revision: commit, file };
    const path = await fetchFile(hub, cache, wanted, links, ({ loaded }) =>
      onProgress?.({ loaded: before + loaded, total }),
    );
    if (file === 'config.json')
      checkConfig(await readFile(path, 'utf8'), fileUrl(hub.endpoint, wanted));
    before += files.get(file)?.size ?? 0;
    onProgress?.({ loaded: before, total });
  }
  await cache.setCommit(model.revision, commit).catch(() => {}); // the cache may be read-only
  return cache.snapshot(commit, chosen[0]);
}

/** Redirects that are followed on the way to what is known of a file. */
const REDIRECTS = 10;

/**
 * Asks for the state of a file. A server may redirect to the place of its bytes; what it says of them is in
 * its own answer.
 * @param {Hub} hub
 * @param {ModelFile} model
 */
async function look(hub, model) {
  const first = fileUrl(hub.endpoint, model);
  let url = first;
  let { token } = hub;
  for (let hops = 0; hops < REDIRECTS; hops++) {
    const { status, headers } = await ask(
      url,
      { method: 'HEAD', redirect: 'manual', headers: { 'Accept-Encoding': 'identity' } },
      { signal: hub.signal, token },
    );
    const to = status >= 300 && headers.get('location');
    const linked = headers.get('x-linked-etag');
    const commit = headers.get('x-repo-commit');
    if (to && !(linked && commit)) {
      const next = redirected(to, url);
      if (next.origin !== new URL(url).origin) token = undefined;
      url = next.href;
      continue;
    }
    const etag = (linked ?? headers.get('etag'))?.replace(/^W\//, '').replaceAll('"', '');
    if (!commit || !etag) {
      throw new HubError(
        'format',
        `${first}: the answer has no ${commit ? 'ETag' : 'X-Repo-Commit'}: it does not come from a Hub; check ` +
          'HF_ENDPOINT, and whether a proxy or a login page is in front of it',
        status,
      );
    }
    checkName(commit, 'X-Repo-Commit', first);
    checkName(etag, 'ETag', first);
    const size = Number(headers.get('x-linked-size') ?? (to ? NaN : headers.get('content-length')));
    return { etag, commit, size: size || undefined };
  }
  throw new HubError('io', `${first}: more than ${REDIRECTS} redirects`, 310);
}

/**
 * Returns where a redirect leads, which must be as safe as where it comes from.
 * @param {string} to
 * @param {string} from
 */
function redirected(to, from) {
  const next = URL.canParse(to, from) ? new URL(to, from) : undefined;
  if (!next || !/^https?:$/.test(next.protocol) || next.username || next.password) {
    throw new HubError('io', `${plain(from)} does not lead to a file`, REDIRECTED);
  }
  if (from.startsWith('https:') && next.protocol === 'http:') {
    const text = `${plain(from)} leads to ${plain(next.href)}, which is not encrypted`;
    throw new HubError('io', text, REDIRECTED);
  }
  return next;
}

/** @typedef {{ etag: string, commit: string, size: number | undefined }} About */

/**
 * Downloads a blob, unless it is there or another process downloads it. Returns whether this one has made it.
 * @param {Hub} hub
 * @param {RepoCache} cache
 * @param {ModelFile} model
 * @param {About} about
 * @param {HubOptions['onProgress']} onProgress
 */
async function download(hub, cache, model, about, onProgress) {
  const blob = cache.blob(about.etag);
  const path = cache.snapshot(about.commit, model.file);
  // If there are no links, another process makes the file of the blob.
  while (!(await exists(blob)) && !(await exists(path))) {
    const partial = await cache.claim(about.etag);
    if (!partial) {
      await sleep(POLL_SECONDS, hub.signal);
      continue;
    }
    try {
      const file = await open(partial, 'r+');
      try {
        await transfer(hub, file, model, about, onProgress);
        await file.sync();
      } finally {
        await file.close();
      }
    } catch (error) {
      const isWrong = error instanceof WispError && /^(format|unsupported)$/.test(error.code);
      await (isWrong ? rm(partial, { force: true }) : leave(partial));
      throw error;
    }
    if (await finish(partial, blob)) return true;
  }
  return false;
}

/**
 * Writes the rest of a file, and checks the whole.
 * @param {Hub} hub
 * @param {import('node:fs/promises').FileHandle} file
 * @param {ModelFile} model
 * @param {About} about
 * @param {HubOptions['onProgress']} onProgress
 */
async function transfer(hub, file, model, { etag, commit, size }, onProgress) {
  // The commit's own file: a branch may move while it is read.
  const url = fileUrl(hub.endpoint, { ...model, revision: commit });
  const { createHash } = await import('node:crypto'); // programs with a file of their own need none
  let hash = createHash('sha256');
  let at = 0;
  /** @param {Uint8Array} part */
  const take = (part) => {
    if (at === 0) {
      checkMagic(part, url);
      checkArchitecture(part, url);
    }
    hash.update(part);
    at += part.length;
    if (size !== undefined && at > size) throw wrongLength(url, at, size);
  };
  const restart = () => {
    hash = createHash('sha256');
    return file.truncate((at = 0));
  };
  if (size === undefined) await restart();
  for await (const part of file.createReadStream({ autoClose: false, start: 0 })) take(part);

  /** @type {import('./hub.js').Transfer['read']} */
  async function read(report) {
    const stop = new AbortController();
    const forget = hub.signal && onAbort(hub.signal, () => stop.abort());
    const silence = new Silence(() => stop.abort());
    try {
      await readOne(report, silence, stop.signal);
    } catch (error) {
      throwIfAborted(hub.signal);
      throw silence.isOver ? new HubError('io', `${url}: ${silence.shown()}`, 0, error) : error;
    } finally {
      silence.end();
      forget?.();
      stop.abort(); // frees a body that is not read
    }
  }
  /**
   * @param {(total: number | undefined) => void} report
   * @param {Silence} silence
   * @param {AbortSignal} signal
   */
  async function readOne(report, silence, signal) {
    const headers = { 'Accept-Encoding': 'identity', ...(at > 0 && { Range: `bytes=${at}-` }) };
    const onPause = (/** @type {number} */ pause) => silence.restart(pause);
    const response = await ask(url, { headers }, { ...hub, signal, onPause });
    const { from, whole } = extent(response);
    if (size !== undefined && whole !== undefined && whole !== size) {
      throw wrongLength(url, whole, size);
    }
    if (from !== at) {
      if (from > 0) throw new WispError('io', `${url}: bytes came from ${from} on, not ${at}`);
      await restart(); // the server knows no ranges
    }
    for await (const part of /** @type {any} */ (response.body)) {
      const place = at;
      silence.add(part.length);
      take(part);
      checkEndless(url, at, size ?? whole, limits.endlessOnDisk);
      // A disk that is nearly full takes a part of a write, and tells of its end only when asked again.
      for (let done = 0; done < part.length;) {
        const { bytesWritten } = await file.write(part, done, part.length - done, place + done);
        done += bytesWritten;
      }
      report(size ?? whole);
    }
  }
  /** @param {any} error */
  const isBroken = (error) =>
    error instanceof WispError ? isUnreachable(error) : !isOfFile(error);
  const least = limits.silence * limits.slowest;
  const wanted = { url, size, at: () => at, read, isBroken, least };
  await readAll(wanted, { signal: hub.signal, onProgress });
  const found = hash.digest('hex');
  if (/^[0-9a-f]{64}$/.test(etag) && found !== etag) throw wrongHash(url, found, etag);
}

/** @param {WispError} error */
const isUnreachable = (error) => error instanceof HubError && error.status === 0;

/** @param {any} error of the system, and not of a connection */
const isOfFile = (error) =>
  /^(write|ftruncate|read)$/.test(error.syscall) && error.code !== 'ECONNRESET';

/**
 * Returns the place of a response's bytes in the file, and the length of the file.
 * @param {Response} response
 */
function extent({ status, headers }) {
  const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(headers.get('content-range') ?? '');
  if (status === 206 && range) return { from: Number(range[1]), whole: Number(range[2]) };
  return { from: 0, whole: Number(headers.get('content-length')) || undefined };
}

/**
 * Lists the models of the cache: all GGUF files of repositories, whichever program has loaded them.
 * @param {{ cacheDir?: string }} [options]
 * @returns {Promise<import('../../types/hub.js').CachedModel[]>}
 */
export async function listCached(options = {}) {
  const files = await withCache(options, listModels);
  /** @param {(typeof files)[number]} a @param {(typeof files)[number]} b */
  const areOne = (a, b) =>
    a.repo === b.repo && a.commit === b.commit && isSameModel(a.file, b.file);
  return files.flatMap((kept) => {
    const { repo, file, commit, path } = kept;
    const all = files.filter((other) => areOne(kept, other));
    const isLater = partOf(file)?.part !== 1 && all.some((other) => partOf(other.file)?.part === 1);
    if (isLater) return []; // the first stands for all
    const bytes = all.reduce((sum, each) => sum + each.bytes, 0);
    const complete = all.length >= (partOf(file)?.count ?? 1);
    return [{ name: `hf:${repo}@${commit}/${file}`, source: path, bytes, complete }];
  });
}

/**
 * Deletes models of the cache: those of a repository or one that listCached names, or all.
 * @param {string} [name]
 * @param {{ cacheDir?: string }} [options]
 * @returns {Promise<number>} bytes that are free now
 */
export async function deleteCached(name, options = {}) {
  const wanted = name === undefined ? undefined : parseName(name, {});
  return withCache(options, (folder) =>
    deleteModels(
      folder,
      ({ repo, commit, file }) =>
        !wanted ||
        (wanted.repo === repo &&
          isSameModel(wanted.file ?? file, file) &&
          (!isCommit(wanted.revision) || wanted.revision === commit)),
    ),
  );
}
