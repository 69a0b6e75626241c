// SPDX-License-Identifier: Apache-2.0
// The formats in which `wisp-engine embed` writes embeddings: the bytes of `wisp embed` (src/cli/output.c).
import { randomUUID } from 'node:crypto';
import { open, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reasonOf } from '../base/system-error.js';
import { Complaint, EXIT, writeOutput } from './cli-console.js';

export const FORMATS = ['text', 'json', 'ndjson', 'npy', 'f32', 'sparse'];

/** Rows are written together up to so many bytes. */
const HELD_BYTES = 65536;

const NPY_HEADER_BYTES = 128;

/**
 * Returns what C's "%.9g" prints: nine digits bring back the same float.
 * @param {number} value a float
 */
export function printFloat(value) {
  const size = Math.abs(value);
  // C rounds a tie to the even digit, and JavaScript away from zero. Only multiples of 2^-14 are ties.
  if (!(size >= 1e-4 && size < 1e8) || Number.isInteger(value * 16384)) return printAny(value);
  const text = value.toPrecision(9); // which has a point, and no exponent
  let end = text.length;
  while (text[end - 1] === '0') end--;
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end);
}

/** @param {number} value */
function printAny(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  const exact = value.toExponential(60);
  const isEvenTie = /^-?\d\.\d{7}[02468]50*e/.test(exact);
  const printed = isEvenTie ? exact.replace(/50*e/, 'e') : value.toExponential(8);
  const [, mantissa, power] = /** @type {string[]} */ (/^(.*)e(.*)$/.exec(printed));
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const digits = mantissa.replace(/[-.]/g, '').replace(/(?<=.)0+$/, '');
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 9) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : '';
    const size = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${digits[0]}${fraction}e${exponent < 0 ? '-' : '+'}${size}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  const fraction = digits.slice(exponent + 1);
  return `${sign}${whole}${fraction && `.${fraction}`}`;
}

/** @param {Float32Array} row @param {string} separator */
const numbers = (row, separator) => Array.from(row, printFloat).join(separator);

/** @param {Float32Array} row the values that are not 0, with their places */
function sparse(row) {
  const indices = [...row.keys()].filter((i) => row[i] !== 0);
  return `{"indices":[${indices}],"values":[${numbers(
    Float32Array.from(indices, (i) => row[i]),
    ',',
  )}]}`;
}

/** @param {Float32Array} row little-endian bytes */
function bytesOf(row) {
  const bytes = new Uint8Array(row.byteLength);
  const view = new DataView(bytes.buffer);
  row.forEach((value, i) => view.setFloat32(4 * i, value, true));
  return bytes;
}

/** @param {number} rows @param {number} dimensions NPY 1.0: see numpy.lib.format */
function npyHeader(rows, dimensions) {
  const shape = `(${rows}, ${dimensions})`;
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': ${shape}, }`;
  return Buffer.from(`\x93NUMPY\x01\0v\0${text.padEnd(NPY_HEADER_BYTES - 11)}\n`, 'latin1');
}

/** Writes rows to standard output, together if they come fast, and soon in any case. */
export class Output {
  #format;
  #dimensions;
  #onFailure;
  #rows = 0;
  /** @type {Uint8Array[]} what is not written yet */
  #held = [];
  #heldBytes = 0;
  /** @type {Promise<void>} the write that is under way; it never rejects */
  #writing = Promise.resolve();
  /** @type {{ error: unknown } | undefined} of a write */
  #failure;
  /** @type {ReturnType<typeof setImmediate> | undefined} */
  #soon;
  /** Rows of npy, whose number is before them. @type {import('node:fs/promises').FileHandle | undefined} */
  #spool;

  /**
   * @param {string} format one of FORMATS
   * @param {number} dimensions
   * @param {() => void} onFailure is called if a write fails, because the next row may be long in coming
   */
  constructor(format, dimensions, onFailure) {
    this.#format = format;
    this.#dimensions = dimensions;
    this.#onFailure = onFailure;
  }

  async open() {
    if (this.#format === 'json') this.#hold(Buffer.from('['));
    if (this.#format !== 'npy') return;
    const path = join(tmpdir(), `wisp-engine-${randomUUID()}.tmp`);
    this.#spool = await open(path, 'wx+', 0o600).catch((error) => {
      throw new Complaint(EXIT.failed, `cannot create a temporary file: ${reasonOf(error)}`);
    });
    await unlink(path).catch(() => {}); // it has no name while it is used; Windows may keep the name
  }

  /**
   * Takes a row, and waits while much is not written.
   * @param {Float32Array} row
   * @param {readonly string[]} kept fields of the text's object
   */
  async row(row, kept) {
    this.#hold(this.#bytesOf(row, kept));
    this.#rows++;
    if (this.#heldBytes >= HELD_BYTES) await this.#flush();
    else this.#soon ??= setImmediate(() => void this.#flush().catch(() => {}));
    this.#check();
  }

  /** Writes what is held and what the format ends with. */
  async close() {
    if (this.#format === 'json') this.#hold(Buffer.from(']\n'));
    await this.#flush();
    if (this.#spool) await this.#copySpool(this.#spool);
  }

  /** Writes what is held of whole rows, if the command ends early. */
  async stop() {
    await this.#flush();
    await this.#spool?.close();
  }

  #check() {
    if (this.#failure) throw this.#failure.error;
  }

  /** @param {Uint8Array} bytes */
  #hold(bytes) {
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
  }

  /** @param {Float32Array} row @param {readonly string[]} kept */
  #bytesOf(row, kept) {
    switch (this.#format) {
      case 'text':
        return Buffer.from(`${numbers(row, ' ')}\n`);
      case 'json':
        return Buffer.from(`${this.#rows > 0 ? ',\n' : ''}[${numbers(row, ',')}]`);
      case 'ndjson': {
        const embedding = `"embedding":[${numbers(row, ',')}]`;
        return Buffer.from(`{${[...kept, embedding].join(',')}}\n`);
      }
      case 'sparse':
        return Buffer.from(`{${[...kept, `"embedding":${sparse(row)}`].join(',')}}\n`);
      default:
        return bytesOf(row);
    }
  }

  async #flush() {
    if (this.#soon) clearImmediate(this.#soon);
    this.#soon = undefined;
    const bytes = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    this.#writing = this.#writing
      .then(() => (this.#failure ? undefined : this.#write(bytes)))
      .catch((error) => {
        this.#failure = { error };
        this.#onFailure();
      });
    await this.#writing;
    this.#check();
  }

  /** @param {Uint8Array} bytes */
  async #write(bytes) {
    if (!this.#spool) return writeOutput(bytes);
    await this.#spool.appendFile(bytes).catch((error) => {
      throw new Complaint(EXIT.failed, `cannot write the temporary file: ${reasonOf(error)}`);
    });
  }

  /** @param {import('node:fs/promises').FileHandle} spool */
  async #copySpool(spool) {
    await writeOutput(npyHeader(this.#rows, this.#dimensions));
    const buffer = new Uint8Array(HELD_BYTES);
    for (let at = 0; ;) {
      const { bytesRead } = await spool.read(buffer, 0, buffer.length, at);
      if (bytesRead === 0) break;
      await writeOutput(buffer.subarray(0, bytesRead));
      at += bytesRead;
    }
    await spool.close();
  }
}
