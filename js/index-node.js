// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index as Node imports it: indexes in files.
import { open, readFile, realpath, rename, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WispError } from './errors.js';
import { wrong } from './options.js';
import { BaseIndex } from './vector-index.js';

export { WispError } from './errors.js';

/** @param {unknown} place */
function pathOf(place) {
  const path = place instanceof URL ? fileURLToPath(place) : place;
  if (typeof path !== 'string' || path === '') throw wrong('path', 'no path and no file: URL');
  return path;
}

/**
 * @param {string} path
 * @param {string} action
 * @param {any} cause
 */
function failed(path, action, cause) {
  const code = cause?.code === 'ENOENT' && action === 'read' ? 'not_found' : 'io';
  return new WispError(code, `${path}: cannot ${action}: ${cause?.message}`, {
    field: 'path',
    cause,
  });
}

/**
 * Writes a file beside the path, syncs it, and lets it take the place of the old one. Where the path
 * is a symbolic link, the file that it leads to is replaced, and the new file has its mode.
 * @param {string} path
 * @param {Uint8Array} bytes
 */
async function replace(path, bytes) {
  const target = await realpath(path).catch(() => path);
  const mode = await stat(target).then(
    (info) => info.mode & 0o7777,
    () => 0o666,
  );
  const temporary = `${target}.${process.pid}.${Math.random().toString(36).slice(2)}.tmp`;
  const file = await open(temporary, 'wx', mode);
  try {
    await file.writeFile(bytes);
    await file.sync();
    await file.close();
    await rename(temporary, target);
  } catch (error) {
    await file.close().catch(() => {});
    await unlink(temporary).catch(() => {});
    throw error;
  }
  // The rename lasts when the folder is synced, which Windows does not let a program do.
  const folder = await open(dirname(target), 'r').catch(() => undefined);
  await folder?.sync().catch(() => {});
  await folder?.close();
}

/** An index that files can hold. */
export class Index extends BaseIndex {
  /**
   * @param {string | URL} path
   * @param {import('../types/vector-index.js').IndexEmbedder} [embedder]
   * @returns {Promise<Index>}
   */
  static async load(path, embedder) {
    const name = pathOf(path);
    const bytes = await readFile(name).catch((error) => {
      throw failed(name, 'read', error);
    });
    return Index.open(bytes, embedder);
  }

  /** @param {string | URL} path */
  async save(path) {
    const name = pathOf(path);
    const bytes = new Uint8Array(this.toBytes());
    await replace(name, bytes).catch((error) => {
      throw failed(name, 'write', error);
    });
  }
}
