// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index as Node imports it: indexes in files.
import { readFile, realpath } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { WispError } from './base/errors.js';
import { checkOptions, wrong } from './base/options.js';
import { onlyKind, writeWhole } from './files/output-node.js';
import { markOf, refuseChange } from './index/index-header.js';
import { BaseIndex } from './index/vector-index.js';

export { WispError } from './base/errors.js';

/** @param {unknown} place */
function pathOf(place) {
  const path = place instanceof URL ? fileURLToPath(place) : place;
  if (typeof path !== 'string' || path === '')
    throw wrong('path', 'neither a path nor a file: URL');
  return path;
}

/** An index that files can hold. */
export class Index extends BaseIndex {
  /** The file that this is the contents of, and the mark of these. */
  #origin = { path: '', mark: '' };

  /**
   * @param {string | URL} path
   * @param {import('../types/vector-index.js').IndexEmbedder} [embedder]
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<Index>}
   */
  static async load(path, embedder, options = {}) {
    checkOptions(options, ['signal']);
    const name = pathOf(path);
    const bytes = await readFile(name).catch((cause) => {
      const code = cause.code === 'ENOENT' ? 'not_found' : 'io';
      const details = { field: 'path', cause };
      throw new WispError(code, `${name}: cannot read: ${cause.message}`, details);
    });
    const index = await Index.open(bytes, embedder, options);
    const real = await realpath(name).catch(() => '');
    index.#origin = { path: real, mark: markOf(bytes) };
    return index;
  }

  /**
   * @param {string | URL} path
   * @param {{ force?: boolean, signal?: AbortSignal }} [options]
   */
  async save(path, options = {}) {
    const name = pathOf(path);
    checkOptions(options, ['force', 'signal']);
    const bytes = new Uint8Array(await this.arrayBuffer({ signal: options.signal }));
    const real = await realpath(name).catch(() => '');
    const onlyIndex = onlyKind(name, 'path', 'an index', 'WISPINDX');
    const { path: origin, mark } = this.#origin;
    const written = await writeWhole(name, 'path', bytes, (there) => {
      if (options.force) return;
      onlyIndex(there);
      if (real !== '' && real === origin) refuseChange(name, 'path', mark, markOf(there));
    });
    this.#origin = { path: await realpath(written).catch(() => ''), mark: markOf(bytes) };
  }
}
