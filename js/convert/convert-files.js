// SPDX-License-Identifier: Apache-2.0
// Files that JavaScript holds, for a conversion: Blobs (in browsers, read synchronously as only workers can) or bytes.

/** @typedef {import('../../types/internal.js').ConvertFiles} ConvertFiles */
/** @typedef {import('../../types/internal.js').ConvertOutput} ConvertOutput */

/** @implements {ConvertFiles} */
export class HeldFiles {
  #files;
  /** @type {(Blob | Uint8Array)[]} by number */
  #opened = [];

  /** @param {Map<string, Blob | Uint8Array>} files by their paths */
  constructor(files) {
    this.#files = files;
  }

  /** @param {string} path */
  kind(path) {
    if (this.#files.has(path)) return 1;
    return [...this.#files.keys()].some((name) => name.startsWith(`${path}/`)) ? 2 : 0;
  }

  /** @param {string} path */
  open(path) {
    const file = this.#files.get(path);
    if (!file) return undefined;
    return {
      file: this.#opened.push(file) - 1,
      size: file instanceof Uint8Array ? file.length : file.size,
    };
  }

  /** @param {number} number @param {number} offset @param {Uint8Array} into */
  read(number, offset, into) {
    const file = this.#opened[number];
    if (file instanceof Uint8Array) {
      into.set(file.subarray(offset, offset + into.length));
      return true;
    }
    try {
      const part = file.slice(offset, offset + into.length);
      into.set(new Uint8Array(new globalThis.FileReaderSync().readAsArrayBuffer(part)));
      return true;
    } catch (error) {
      // So a browser says that a file on the disk is no longer the one that was chosen.
      if (/^Not(Readable|Found)Error$/.test(/** @type {Error} */ (error).name)) return false;
      throw error;
    }
  }

  close() {} // a Blob cannot be closed
}

/**
 * Collects an output as a Blob, whose bytes the browser keeps outside the worker's memory.
 * @implements {ConvertOutput}
 */
export class BlobOutput {
  /** @type {Blob[]} */
  #parts = [];

  /** @param {Uint8Array} bytes */
  write(bytes) {
    this.#parts.push(new Blob([/** @type {any} */ (bytes)]));
  }

  /** @param {number} offset @param {Uint8Array} bytes */
  writeAgain(offset, bytes) {
    const whole = new Blob(this.#parts);
    const middle = new Blob([/** @type {any} */ (bytes)]);
    this.#parts = [whole.slice(0, offset), middle, whole.slice(offset + bytes.length)];
  }

  end() {
    return { value: new Blob(this.#parts), transfer: [] };
  }
}

/**
 * Collects an output as bytes.
 * @implements {ConvertOutput}
 */
export class BytesOutput {
  /** @type {Uint8Array[]} */
  #parts = [];
  #size = 0;
  /** @type {{ offset: number, bytes: Uint8Array }[]} */
  #patches = [];

  /** @param {Uint8Array} bytes */
  write(bytes) {
    this.#parts.push(bytes.slice());
    this.#size += bytes.length;
  }

  /** @param {number} offset @param {Uint8Array} bytes */
  writeAgain(offset, bytes) {
    this.#patches.push({ offset, bytes: bytes.slice() });
  }

  end() {
    const value = new Uint8Array(this.#size);
    let at = 0;
    for (const part of this.#parts) {
      value.set(part, at);
      at += part.length;
    }
    for (const { offset, bytes } of this.#patches) value.set(bytes, offset);
    return { value, transfer: [value.buffer] };
  }
}
