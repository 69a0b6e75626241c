// SPDX-License-Identifier: Apache-2.0
// The store of chunks in Node: a folder that processes share.
import { mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { wrong } from '../base/options.js';
import { writeWhole } from '../files/output-node.js';
import { expanded } from '../hub/hub-node.js';

/** A temporary file that is so old belongs to a process that was killed. */
const DEAD_MS = 3_600_000;

/** Unless WISP_CACHE_BYTES says otherwise, as in src/http/cache_room.c. */
const DEFAULT_BYTES = 16e9;

function boundOf() {
  const text = process.env.WISP_CACHE_BYTES;
  if (!text) return DEFAULT_BYTES;
  const [, number, unit] = /^(\d+)([KMG]?)$/.exec(text) ?? [];
  if (number === undefined) throw wrong('WISP_CACHE_BYTES', `${text} is not a number of bytes, such as 500M or 16G`); // prettier-ignore
  return Number(number) * 1000 ** ' KMG'.indexOf(unit || ' ');
}

/** @param {number} id of a process, which may be another user's */
function isRunning(id) {
  try {
    return process.kill(id, 0);
  } catch (error) {
    return /** @type {any} */ (error).code === 'EPERM';
  }
}

let holds = 0;

/**
 * Returns the names HEADER-PROCESS-NUMBER of all that use a file, and deletes those of processes that have ended.
 * @param {string} own
 */
async function usersOf(own) {
  const names = await readdir(join(own, 'use')).catch(() => /** @type {string[]} */ ([]));
  const gone = names.filter((name) => !isRunning(Number(name.split('-')[1])));
  for (const name of gone) await rm(join(own, 'use', name), { force: true }).catch(() => {});
  return names.filter((name) => !gone.includes(name));
}

/** A folder of its own in the cache that the program wisp has, too (src/http/cache.h). */
function folderOf() {
  const { WISP_CACHE, XDG_CACHE_HOME } = process.env;
  const cache = WISP_CACHE || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'wisp');
  return join(expanded(cache), 'chunks');
}

/**
 * Each entry is a file that comes into being by a rename, so that a process that is killed leaves no part of one.
 * @returns {Promise<import('./cold-store.js').Store>}
 */
export async function openStore() {
  const own = folderOf();
  const bytes = boundOf();
  return {
    bound: () => bytes,
    // An empty file says which process uses a model. One that was killed leaves it behind.
    async hold(header) {
      const path = join(own, 'use', `${header}-${process.pid}-${holds++}`);
      await mkdir(dirname(path), { recursive: true });
      await usersOf(own);
      await writeFile(path, '');
      return () => rm(path, { force: true }).catch(() => {});
    },
    isHeld: async (header) => (await usersOf(own)).some((name) => name.startsWith(`${header}-`)),
    kind: 'folder',
    get: (key) => readFile(join(own, key)).then(({ buffer, byteOffset, length }) => new Uint8Array(buffer, byteOffset, length)), // prettier-ignore
    async put(key, bytes) {
      await mkdir(dirname(join(own, key)), { recursive: true });
      await writeWhole(join(own, key), 'cache', bytes);
    },
    delete: (key) => rm(join(own, key), { force: true, recursive: true }),
    async keys(folder) {
      const names = await readdir(join(own, folder)).catch((error) => {
        if (/^ENO(ENT|TDIR)$/.test(error.code)) return /** @type {string[]} */ ([]);
        throw error;
      });
      const isTemporary = (/** @type {string} */ name) => name.endsWith('.tmp');
      for (const name of names.filter(isTemporary)) {
        const path = join(own, folder, name);
        const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }));
        if (Date.now() - mtimeMs > DEAD_MS) await rm(path, { force: true }).catch(() => {});
      }
      return names.filter((name) => !isTemporary(name));
    },
  };
}
