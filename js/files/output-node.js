// SPDX-License-Identifier: Apache-2.0
// Writing a file that appears under its name only when it is complete: what src/host/file.c does.
import { randomUUID } from 'node:crypto';
import { lstat, open, realpath, rename, rm, stat, unlink } from 'node:fs/promises';
import { basename, dirname, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WispError } from '../base/errors.js';
import { reasonOf } from '../base/system-error.js';

/** Windows replaces no file that another process reads: how often it is tried, and the milliseconds between. */
const MOST_TRIES = 50;
const RETRY_MS = 20;

/** A program that was killed while it gave a file its name leaves its lock, which counts for so many milliseconds. */
const LOCK_MS = 10_000;

/**
 * Refuses to replace a file.
 * @callback Check
 * @param {Uint8Array} beginning the first bytes of the file that is to be replaced, at most CHECKED_BYTES
 * @returns {void}
 */

const CHECKED_BYTES = 128;

/**
 * Makes a check that lets only files of one kind be replaced, and empty ones.
 * @param {string} path
 * @param {string} field of errors
 * @param {string} kind
 * @param {string} begins what files of this kind begin with
 * @returns {Check}
 */
export const onlyKind = (path, field, kind, begins) => (bytes) => {
  if (bytes.length === 0 || Buffer.from(bytes).toString('latin1').startsWith(begins)) return;
  const message = `${path}: exists and is not ${kind}: choose another name, or replace it by the option force`;
  throw new WispError('argument', message, { field });
};

/**
 * Writes a file whole, or leaves what was there.
 * @param {string} path
 * @param {string} field of errors
 * @param {Uint8Array} bytes
 * @param {Check} [check]
 * @returns {Promise<string>} the path without symbolic links
 */
export async function writeWhole(path, field, bytes, check) {
  const file = new OutputFile(path, field, check);
  try {
    await file.open();
    await file.write(bytes);
    return await file.commit();
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

/** A file that is written under a temporary name, and renamed by commit(). */
export class OutputFile {
  #path;
  #field;
  #check;
  #target = '';
  #temporary = '';
  /** @type {import('node:fs/promises').FileHandle | undefined} */
  #file;

  /**
   * @param {string} path
   * @param {string} field of errors
   * @param {Check} [check] is asked when the file is opened, and again before it gets its name
   */
  constructor(path, field, check) {
    this.#path = path;
    this.#field = field;
    this.#check = check;
  }

  /** Finds the file that is replaced, if the path is a symbolic link, and creates one beside it. */
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
    await this.#mayReplace();
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

  /** Asks the check about the file that is there now. */
  async #mayReplace() {
    if (!this.#check) return;
    const file = await open(this.#target, 'r').catch((error) => {
      if (error.code !== 'ENOENT') this.#fail('read the file that is there', error);
    });
    if (!file) return;
    const bytes = new Uint8Array(CHECKED_BYTES);
    const reading = file.read(bytes, 0, bytes.length, 0).finally(() => file.close());
    const { bytesRead } = await this.#try('read the file that is there', reading);
    this.#check(bytes.subarray(0, bytesRead));
  }

  /**
   * Runs work while no other process gives the file its name.
   * @param {() => Promise<void>} work
   */
  async #alone(work) {
    const lock = nameBeside(this.#target, '.lock');
    for (;;) {
      const taken = await open(lock, 'wx').catch((error) => {
        if (error.code !== 'EEXIST') this.#fail('lock it', error);
      });
      if (taken) {
        await taken.close();
        break;
      }
      const held = await stat(lock).catch(() => undefined);
      if (held && Math.abs(Date.now() - held.mtimeMs) > LOCK_MS) await rm(lock, { force: true });
      await sleep(RETRY_MS);
    }
    await work().finally(() => rm(lock, { force: true }));
  }

  /** Syncs the file, gives it its name, and syncs its folder. Resolves to its path without symbolic links. */
  async commit() {
    await this.#try('write', Promise.resolve(this.#file?.sync()));
    if (this.#check) {
      await this.#alone(async () => {
        await this.#mayReplace();
        await this.#try('write', this.#rename());
      });
    } else {
      await this.#try('write', this.#rename());
    }
    // Windows does not let a program sync a folder.
    const folder = await open(dirname(this.#target), 'r').catch(() => undefined);
    await folder?.sync().catch(() => {});
    await folder?.close();
    return this.#target;
  }

  async #rename() {
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
