// SPDX-License-Identifier: Apache-2.0
// Model files that native code reads by itself, so that no copy of them stays in JavaScript's memory.
import { close, fstat, open, read } from 'node:fs';
import { promisify } from 'node:util';
import { WispError } from './errors.js';
import { checker } from './source.js';

/** Closes the files of generators that nobody has closed. */
const forgotten = new FinalizationRegistry((/** @type {number} */ descriptor) =>
  closeFile(descriptor),
);

const closeFile = (/** @type {number} */ descriptor) => close(descriptor, () => {});

/**
 * Opens a file. It stays open until it is released, because the model may be opened again.
 * @param {string} path
 * @param {import('../types/internal.js').Reading} reading
 * @returns {Promise<import('../types/internal.js').HeldModel>}
 */
export async function openFile(path, reading) {
  const descriptor = await promisify(open)(path, 'r');
  try {
    const state = async () => {
      const { dev, ino, size, mtimeNs } = await promisify(fstat)(descriptor, { bigint: true });
      return { size: Number(size), key: `${path} ${dev} ${ino} ${size} ${mtimeNs}` };
    };
    const { size, key } = await state();
    const first = new Uint8Array(1);
    await promisify(read)(descriptor, first, 0, 1, 0); // of a folder it fails
    checker(path, {}).add(first);
    reading.progress(size, size);
    const model = {
      descriptor,
      size,
      key,
      async check() {
        if ((await state()).key === key) return;
        throw new WispError('io', `${path}: the file changed while it was read`);
      },
    };
    forgotten.register(model, descriptor, model);
    return {
      model,
      release: () => void (forgotten.unregister(model) && closeFile(descriptor)),
    };
  } catch (error) {
    closeFile(descriptor);
    throw error;
  }
}
