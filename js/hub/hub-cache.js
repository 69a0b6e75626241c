// SPDX-License-Identifier: Apache-2.0
// The cache of huggingface_hub on disk, shared with it and with other processes:
//
//   models--owner--name/refs/main            the commit of a branch or tag
//   models--owner--name/snapshots/COMMIT/f   a link to
//   models--owner--name/blobs/ETAG           the bytes
//
// A blob comes into being by renaming a complete file, so that no reader sees a part of one. Downloads write to
// ETAG.wisp-PID-N.incomplete, which the next one for the same blob takes over. Two processes may even write one such
// file at once: both write the same bytes to the same places, and the hash is checked at the end.
import {
  copyFile,
  mkdir,
  readFile,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  unlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { pid } from 'node:process';
import { nameBeside } from '../files/output-node.js';
import { isCommit } from './hub.js';

/** A partial file that was not written to for so long has no writer. */
const IDLE_MS = 10_000;

let made = 0;

/** Tells the files apart that are being written, those of other processes too. */
const mark = () => `wisp-${pid}-${++made}`;

/** The folder of one repository. */
export class RepoCache {
  #folder;

  /**
   * @param {string} cache
   * @param {string} repo
   */
  constructor(cache, repo) {
    this.#folder = join(cache, `models--${repo.replaceAll('/', '--')}`);
  }

  /** The folder of the blobs. */
  get blobs() {
    return join(this.#folder, 'blobs');
  }

  /** @param {string} etag */
  blob(etag) {
    return join(this.blobs, etag);
  }

  /**
   * Returns the path of a file of a commit.
   * @param {string} commit
   * @param {string} file
   */
  snapshot(commit, file) {
    return join(this.#folder, 'snapshots', commit, ...file.split('/'));
  }

  /**
   * Returns the commit of a revision, as it was when something was last loaded of it.
   * @param {string} revision
   * @returns {Promise<string | undefined>}
   */
  async commitOf(revision) {
    if (isCommit(revision)) return revision;
    const commit = await readFile(join(this.#folder, 'refs', revision), 'utf8').catch(
      ignoreMissing,
    );
    return commit?.trim();
  }

  /**
   * Returns the files of a commit that are here.
   * @param {string} commit
   */
  async files(commit) {
    const folder = join(this.#folder, 'snapshots', commit);
    const names = await readdir(folder, { recursive: true }).catch(ignoreMissing);
    return (names ?? []).map((name) => name.replaceAll('\\', '/'));
  }

  /**
   * Notes which commit a revision is. A cache that cannot be written to remains usable.
   * @param {string} revision
   * @param {string} commit
   */
  async setCommit(revision, commit) {
    if (revision === commit || (await this.commitOf(revision)) === commit) return;
    const path = join(this.#folder, 'refs', revision);
    await mkdir(dirname(path), { recursive: true });
    const written = nameBeside(path, `.${mark()}.tmp`);
    await writeFile(written, commit);
    await rename(written, path);
  }

  /**
   * Makes a file of a commit of a blob: a link; if links cannot be made, the blob itself, or a copy if other
   * commits may link to it.
   * @param {string} etag
   * @param {string} commit
   * @param {string} file
   * @param {{ links: boolean, isNew: boolean }} how
   */
  async point(etag, commit, file, { links, isNew }) {
    const path = this.snapshot(commit, file);
    const blob = this.blob(etag);
    if (await exists(path)) return path; // by another process
    await mkdir(dirname(path), { recursive: true });
    if (links) {
      try {
        await symlink(relative(dirname(path), blob), path);
        return path;
      } catch (error) {
        const { code } = /** @type {NodeJS.ErrnoException} */ (error);
        if (code === 'EEXIST') return this.#replace(path, blob);
        if (!/^(EPERM|EACCES|ENOSYS|ENOTSUP|EINVAL|UNKNOWN)$/.test(code ?? '')) throw error;
      }
    }
    if (isNew) {
      await rename(blob, path);
      return path;
    }
    const copy = nameBeside(path, `.${mark()}.incomplete`);
    await copyFile(blob, copy);
    await rename(copy, path);
    return path;
  }

  /**
   * Another process has made the link, or one to a blob that is gone.
   * @param {string} path
   * @param {string} blob
   */
  async #replace(path, blob) {
    if (await exists(path)) return path;
    const made = nameBeside(path, `.${mark()}.incomplete`);
    await symlink(relative(dirname(path), blob), made);
    await rename(made, path);
    return path;
  }

  /**
   * Returns the path of a file to download a blob into: one that an ended download has left, or a new one;
   * undefined while another process downloads it.
   * @param {string} etag
   * @returns {Promise<string | undefined>}
   */
  async claim(etag) {
    const folder = dirname(this.blob(etag));
    await mkdir(folder, { recursive: true });
    const mine = join(folder, `${etag}.${mark()}.incomplete`);
    for (const name of await readdir(folder)) {
      const writer = name.startsWith(`${etag}.wisp-`) && /-(\d+)-\d+\.incomplete$/.exec(name);
      if (!writer) continue;
      const path = join(folder, name);
      const about = await stat(path).catch(ignoreMissing);
      if (!about) continue;
      // A clock may have been set back since.
      if (Math.abs(Date.now() - about.mtimeMs) < IDLE_MS && isRunning(Number(writer[1])))
        return undefined;
      try {
        await rename(path, mine);
        await utimes(mine, new Date(), new Date());
        return mine;
      } catch (error) {
        ignoreMissing(error); // another process was faster
      }
    }
    await writeFile(mine, '');
    return mine;
  }
}

/**
 * Says that nobody writes to a partial file any longer.
 * @param {string} path
 */
export const leave = (path) => utimes(path, 0, 0).catch(ignoreMissing);

/**
 * Makes a complete file a blob. Returns false if the file is gone, because a process that took this one
 * for ended has taken it over.
 * @param {string} path
 * @param {string} blob
 */
export async function finish(path, blob) {
  try {
    await rename(path, blob);
    return true;
  } catch (error) {
    ignoreMissing(error);
    return false;
  }
}

/** @param {string} path */
export const exists = async (path) => Boolean(await stat(path).catch(ignoreMissing));

/**
 * @param {number} process
 */
function isRunning(process) {
  try {
    globalThis.process.kill(process, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH';
  }
}

/**
 * @param {any} error
 * @returns {undefined}
 */
function ignoreMissing(error) {
  // ELOOP: a link that leads to itself is none.
  if (!/^(ENOENT|ENOTDIR|ELOOP)$/.test(error.code)) throw error;
}

/**
 * @typedef {object} Kept
 * @property {string} repo
 * @property {string} file
 * @property {string} commit
 * @property {string} path
 * @property {string} blob
 * @property {number} bytes
 */

/**
 * Lists the GGUF files of a cache.
 * @param {string} cache
 * @returns {Promise<Kept[]>}
 */
export async function listModels(cache) {
  const found = [];
  for (const name of (await readdir(cache).catch(ignoreMissing)) ?? []) {
    if (!name.startsWith('models--')) continue;
    const repo = name.slice('models--'.length).replace('--', '/');
    const files = new RepoCache(cache, repo);
    const commits = await readdir(join(cache, name, 'snapshots')).catch(ignoreMissing);
    for (const commit of commits ?? []) {
      for (const file of await files.files(commit)) {
        if (!/\.gguf$/i.test(file)) continue;
        const path = files.snapshot(commit, file);
        const about = await stat(path).catch(ignoreMissing);
        if (!about?.isFile()) continue;
        const link = await readlink(path).catch(() => ''); // EINVAL: it is the file itself
        const blob = link ? resolve(dirname(path), link) : path;
        found.push({ repo, file, commit, path, blob, bytes: about.size });
      }
    }
  }
  return found;
}

/**
 * Returns whether a file is in a folder, and not in another one to which a link within it leads.
 * @param {string} folder
 * @param {string} path
 */
async function isWithin(folder, path) {
  const [own, parent] = await Promise.all([realpath(folder), realpath(dirname(path))]).catch(() => [
    '',
    '.',
  ]);
  return parent.startsWith(own + sep);
}

/**
 * Deletes models, and the blobs that no other snapshot has. What is elsewhere, to which a user has made a link, stays.
 * @param {string} cache
 * @param {(kept: Kept) => boolean} wanted
 * @returns {Promise<number>} bytes that are free now
 */
export async function deleteModels(cache, wanted) {
  const all = await listModels(cache);
  const kept = new Set(all.filter((model) => !wanted(model)).map(({ blob }) => blob));
  const freed = new Map();
  for (const model of all.filter(wanted)) {
    const { blobs } = new RepoCache(cache, model.repo);
    if (!(await isWithin(dirname(blobs), model.path))) continue;
    await unlink(model.path).catch(ignoreMissing);
    const isBlob = dirname(model.blob) === resolve(blobs);
    const isOwn =
      model.blob === model.path || (isBlob && (await isWithin(dirname(blobs), model.blob)));
    if (isOwn && !kept.has(model.blob)) freed.set(model.blob, model.bytes);
  }
  for (const blob of freed.keys()) await rm(blob, { force: true });
  return [...freed.values()].reduce((sum, bytes) => sum + bytes, 0);
}
