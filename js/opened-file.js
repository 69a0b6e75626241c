// SPDX-License-Identifier: Apache-2.0
// Model files that native code reads by itself, so that no copy of them stays in JavaScript's memory.
import { close, fstat, open, read } from 'node:fs';
import { promisify } from 'node:util';
import { WispError } from './errors.js';
import { checker } from './source.js';

/** Closes the files of embedders and generators that nobody has closed. */
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

/**
 * Returns arguments for load: a platform that leaves reading a file to the addon where `own` finds one.
 * @param {import('../types/internal.js').Platform} platform
 * @param {import('../types/internal.js').Own} own
 * @returns {[import('../types/internal.js').Platform, import('../types/internal.js').Own]}
 */
export function readingFiles(platform, own) {
  let asFile = false;
  return [
    {
      ...platform,
      readModel: (model, from, reading) => platform.readModel(model, from, { ...reading, asFile }),
    },
    {
      ...own,
      native(options) {
        const found = own.native?.(options) ?? { reason: 'no addon here' };
        // On Windows the addon has a C library of its own, which does not know Node's files.
        asFile = found.addon !== undefined && process.platform !== 'win32';
        return found;
      },
    },
  ];
}
