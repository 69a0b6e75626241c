// SPDX-License-Identifier: Apache-2.0
// Model files that native code reads by itself: it takes each weight from the file once, and embeddings of tokens as
// texts need them, so that JavaScript holds no copy. The file stays the one that was opened, also if another one
// takes its name. Writing to it fails what needs its bytes: while the model is opened by its times, later by checksums.
import { closeSync, fstatSync, open, read } from 'node:fs';
import { WispError, throwIfAborted } from '../base/errors.js';
import { htmlError } from './source.js';

/** @typedef {import('../../types/addon.js').ModelFile} ModelFile */

/** An embedder that is collected without being closed leaves its file to this. */
const collected = new FinalizationRegistry((/** @type {number} */ fd) => closeSync(fd));

/** @type {Map<string, WeakRef<OpenFile>>} files that embedders use, by path and state */
const files = new Map();

/** @implements {ModelFile} */
class OpenFile {
  users = 0;
  #path;
  #state;

  /**
   * @param {string} path
   * @param {number} descriptor
   */
  constructor(path, descriptor) {
    this.descriptor = descriptor;
    this.#path = path;
    const found = fstatSync(descriptor, { bigint: true });
    this.size = Number(found.size);
    this.#state = stateOf(found);
    this.key = `${path} ${found.dev} ${found.ino} ${this.#state}`;
    collected.register(this, descriptor, this);
  }

  check() {
    if (stateOf(fstatSync(this.descriptor, { bigint: true })) === this.#state) return;
    throw new WispError('io', `${this.#path}: the file changed after it was opened`);
  }

  close() {
    collected.unregister(this);
    closeSync(this.descriptor);
  }
}

/** @param {import('node:fs').BigIntStats} stats */
const stateOf = ({ size, mtimeNs }) => `${size} ${mtimeNs}`;

/**
 * Whether a model that is read so may stay a file. A hash needs all of its bytes; Windows lacks a call by which
 * threads read at different places.
 * @param {import('../../types/internal.js').Reading} reading
 */
export const staysFile = ({ addon, integrity }) =>
  addon !== undefined && integrity === undefined && process.platform !== 'win32';

/**
 * Opens a file, or takes the one that an embedder has open.
 * @param {string} path
 * @param {import('../../types/internal.js').Reading} reading
 * @returns {Promise<import('../../types/internal.js').HeldModel>}
 */
export async function holdFile(path, reading) {
  /** @type {number} */
  const descriptor = await new Promise((resolve, reject) =>
    open(path, 'r', (error, found) => (error ? reject(error) : resolve(found))),
  );
  const opened = new OpenFile(path, descriptor);
  let model = opened;
  try {
    const first = new Uint8Array(1);
    await new Promise((resolve, reject) =>
      read(descriptor, first, 0, 1, 0, (error) => (error ? reject(error) : resolve(undefined))),
    ); // of a folder it fails
    if (first[0] === 0x3c) throw htmlError(path); // '<'
    throwIfAborted(reading.signal);
    model = files.get(opened.key)?.deref() ?? opened;
    reading.progress(model.size, model.size);
  } catch (error) {
    opened.close();
    throw error;
  }
  if (model !== opened) opened.close();
  model.users++;
  files.set(model.key, new WeakRef(model));
  let held = true;
  return {
    model,
    release() {
      if (!held) return;
      held = false;
      if (--model.users > 0) return;
      files.delete(model.key);
      model.close();
    },
  };
}
