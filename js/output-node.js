// SPDX-License-Identifier: Apache-2.0
// Writing a file that appears under its name only when it is complete: what src/host/file.c does.
import { randomUUID } from 'node:crypto';
import { lstat, open, realpath, rename, stat, unlink } from 'node:fs/promises';
import { basename, dirname, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WispError } from './errors.js';
import { reasonOf } from './system-error.js';

/** Windows replaces no file that another process reads: how often it is tried, and the milliseconds between. */
const MOST_TRIES = 50;
const RETRY_MS = 20;

/**
 * Writes a file whole, or leaves what was there.
 * @param {string} path
 * @param {string} field of errors
 * @param {Uint8Array} bytes
 */
export async function writeWhole(path, field, bytes) {
  const file = new OutputFile(path, field);
  try {
    await file.open();
    await file.write(bytes);
    await file.commit();
  } finally {
    await file.discard();
  }
}

/** The longest name of a file, of the file systems in use. */
const MOST_NAME_BYTES = 255;

/**
 * Returns a path beside a file, whose name begins with as much of the file's as there is room for.
 * @param {string} path
 * @param {string} mark the end of the name
 */
export function nameBeside(path, mark) {
  const letters = [...basename(path)];
  while (Buffer.byteLength(letters.join('') + mark) > MOST_NAME_BYTES) letters.pop();
  // join() would take `link/..` for the folder of the link.
  return `${dirname(path)}${sep}${letters.join('')}${mark}`;
}

/** A file that is written under a temporary name, and gets its own by commit(). */
export class OutputFile {
  #path;
  #field;
  #target = '';
  #temporary = '';
  /** @type {import('node:fs/promises').FileHandle | undefined} */
  #file;

  /**
   * @param {string} path
   * @param {string} field of errors
   */
  constructor(path, field) {
    this.#path = path;
    this.#field = field;
  }

  /** Finds the file that is replaced, where the path is a symbolic link, and creates one beside it. */
  async open() {
    const path = this.#path;
    const isThere = await lstat(path).then(
      () => true,
      (error) => error.code !== 'ENOENT' && this.#fail('look for it', error),
    );
    const replaced = isThere ? await this.#try('follow the symbolic link', stat(path)) : undefined;
    if (replaced && !replaced.isFile()) {
      const details = { field: this.#field };
      throw new WispError('io', `${path}: exists and is not a regular file`, details);
    }
    this.#target = isThere ? await this.#try('resolve the path', realpath(path)) : path;
    this.#temporary = nameBeside(this.#target, `.${process.pid}.wisp-${randomUUID()}.tmp`);
    const action = 'create a temporary file beside it';
    const file = (this.#file = await this.#try(action, open(this.#temporary, 'wx', 0o666)));
    if (!replaced) return;
    try {
      await file.chmod(replaced.mode & 0o7777);
      // Only root may give files to another user.
      await file.chown(replaced.uid, replaced.gid).catch((error) => {
        if (error.code !== 'EPERM') throw error;
      });
    } catch (error) {
      await this.discard();
      this.#fail('keep the mode and owner', error);
    }
  }

  get descriptor() {
    return this.#file?.fd;
  }

  /** @param {Uint8Array} bytes */
  async write(bytes) {
    await this.#try('write', Promise.resolve(this.#file?.writeFile(bytes)));
  }

  /** Syncs the file, gives it its name, and syncs its folder. */
  async commit() {
    await this.#try('write', this.#rename());
    // Windows does not let a program sync a folder.
    const folder = await open(dirname(this.#target), 'r').catch(() => undefined);
    await folder?.sync().catch(() => {});
    await folder?.close();
  }

  async #rename() {
    await this.#file?.sync();
    await this.#file?.close();
    for (let tries = 1; ; tries++) {
      try {
        await rename(this.#temporary, this.#target);
        break;
      } catch (error) {
        const { code = '' } = /** @type {NodeJS.ErrnoException} */ (error);
        const isBusy = process.platform === 'win32' && /^(EPERM|EACCES|EBUSY)$/.test(code);
        if (!isBusy || tries === MOST_TRIES) throw error;
        await sleep(RETRY_MS);
      }
    }
    this.#file = undefined;
  }

  /** Deletes the temporary file, unless it has its name. */
  async discard() {
    if (!this.#file) return;
    await this.#file.close().catch(() => {});
    this.#file = undefined;
    await unlink(this.#temporary).catch(() => {});
  }

  /**
   * @param {string} action
   * @param {any} cause
   * @returns {never}
   */
  #fail(action, cause) {
    throw new WispError('io', `${this.#path}: cannot ${action}: ${reasonOf(cause)}`, {
      field: this.#field,
      cause,
    });
  }

  /**
   * @template T
   * @param {string} action
   * @param {Promise<T>} work
   * @returns {Promise<T>}
   */
  #try(action, work) {
    return work.catch((error) => this.#fail(action, error));
  }
}
