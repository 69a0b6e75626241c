// SPDX-License-Identifier: Apache-2.0
// Files of Node that come into being whole.
import { open, realpath, rename, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Writes a file beside the path, syncs it, and lets it take the place of the old one. Where the path
 * is a symbolic link, the file that it leads to is replaced, and the new file has its mode.
 * @param {string} path
 * @param {Uint8Array} bytes
 */
export async function replaceFile(path, bytes) {
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
