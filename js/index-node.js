// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index as Node imports it: indexes in files.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { WispError } from './errors.js';
import { wrong } from './options.js';
import { writeWhole } from './output-node.js';
import { BaseIndex } from './vector-index.js';

export { WispError } from './errors.js';

/** @param {unknown} place */
function pathOf(place) {
  const path = place instanceof URL ? fileURLToPath(place) : place;
  if (typeof path !== 'string' || path === '') throw wrong('path', 'no path and no file: URL');
  return path;
}

/** An index that files can hold. */
export class Index extends BaseIndex {
  /**
   * @param {string | URL} path
   * @param {import('../types/vector-index.js').IndexEmbedder} [embedder]
   * @returns {Promise<Index>}
   */
  static async load(path, embedder) {
    const name = pathOf(path);
    const bytes = await readFile(name).catch((cause) => {
      const code = cause.code === 'ENOENT' ? 'not_found' : 'io';
      const details = { field: 'path', cause };
      throw new WispError(code, `${name}: cannot read: ${cause.message}`, details);
    });
    return Index.open(bytes, embedder);
  }

  /** @param {string | URL} path */
  async save(path) {
    const name = pathOf(path);
    const bytes = new Uint8Array(this.toBytes());
    await writeWhole(name, 'path', bytes);
  }
}
