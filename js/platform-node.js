// SPDX-License-Identifier: Apache-2.0
import { readFile } from 'node:fs/promises';
import { WispError } from './errors.js';

/**
 * @param {import('./builds.js').Build} build
 * @returns {Promise<WebAssembly.Module>}
 */
export async function compileBuild(build) {
  const url =
    build === 'relaxed'
      ? new URL('./wisp-relaxed.wasm', import.meta.url)
      : new URL('./wisp-simd128.wasm', import.meta.url);
  return WebAssembly.compile(await readBytes(url));
}

/** The model that comes with the package. */
export const DEFAULT_MODEL = new URL('../models/wisp-default.gguf', import.meta.url);

/**
 * A file as bytes.
 * @param {string | URL} path
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function readBytes(path) {
  try {
    const file = await readFile(path);
    return new Uint8Array(file.buffer, file.byteOffset, file.length);
  } catch (error) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    throw new WispError(code === 'ENOENT' ? 'not_found' : 'io', message, { cause: error });
  }
}
