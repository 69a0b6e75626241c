// SPDX-License-Identifier: Apache-2.0
// Where Node keeps chunks: in a folder that processes share.
import { mkdir, readFile, readdir, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { expanded } from './hub-node.js';
import { writeWhole } from './output-node.js';

/** A temporary file that is so old belongs to a process that was killed. */
const DEAD_MS = 3_600_000;

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
  return {
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
