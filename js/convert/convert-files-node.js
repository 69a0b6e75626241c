// SPDX-License-Identifier: Apache-2.0
// Files on the disk, for a conversion in a worker thread: what src/host/input_file.c does, by synchronous calls.
import { closeSync, constants, fstatSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import { NotRegularError } from './convert-module.js';

/** @typedef {import('../../types/internal.js').ConvertFiles} ConvertFiles */
/** @typedef {import('../../types/internal.js').ConvertOutput} ConvertOutput */
/** @typedef {import('node:fs').BigIntStats} BigIntStats */

/** @param {any} error */
const isMissing = ({ code }) => code === 'ENOENT' || code === 'ENOTDIR';

/**
 * Whether two descriptions of a file say that its bytes are the same: see same_contents there.
 * @param {BigIntStats} a
 * @param {BigIntStats} b
 */
const isSame = (a, b) =>
  a.size === b.size && a.mtimeNs === b.mtimeNs && (a.ctimeNs === b.ctimeNs || a.nlink !== b.nlink);

/** @implements {ConvertFiles} */
export class DiskFiles {
  /** As they were when they were opened, by descriptor. @type {Map<number, BigIntStats>} */
  #opened = new Map();

  /** @param {string} path */
  kind(path) {
    try {
      return statSync(path).isDirectory() ? 2 : 1;
    } catch (error) {
      return isMissing(error) ? 0 : 1; // opening says why
    }
  }

  /** @param {string} path */
  open(path) {
    let file;
    try {
      // Opening a FIFO would wait for a writer otherwise. Windows has no such flag.
      file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return undefined;
      throw error;
    }
    const about = fstatSync(file, { bigint: true });
    if (!about.isFile()) {
      closeSync(file);
      throw new NotRegularError(path);
    }
    this.#opened.set(file, about);
    return { file, size: Number(about.size) };
  }

  /** @param {number} file @param {number} offset @param {Uint8Array} into */
  read(file, offset, into) {
    for (let at = 0; at < into.length;) {
      const count = readSync(file, into, at, into.length - at, offset + at);
      if (count === 0) return false;
      at += count;
    }
    const before = /** @type {BigIntStats} */ (this.#opened.get(file));
    return isSame(before, fstatSync(file, { bigint: true }));
  }

  /** @param {number} file */
  close(file) {
    closeSync(file);
    this.#opened.delete(file);
  }
}

/**
 * Writes to a descriptor that the main thread has opened.
 * @implements {ConvertOutput}
 */
export class DiskOutput {
  #file;

  /** @param {number} file */
  constructor(file) {
    this.#file = file;
  }

  /** @param {Uint8Array} bytes */
  write(bytes) {
    for (let at = 0; at < bytes.length;) at += writeSync(this.#file, bytes, at);
  }

  /** @param {number} offset @param {Uint8Array} bytes */
  writeAgain(offset, bytes) {
    for (let at = 0; at < bytes.length;) {
      at += writeSync(this.#file, bytes, at, bytes.length - at, offset + at);
    }
  }

  end() {
    // The file is the result.
    return { value: undefined, transfer: [] };
  }
}
