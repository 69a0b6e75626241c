// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold as Node imports it: Embedder.load with the option cold, of files and URLs.
import { open } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { WispError, throwIfAborted } from './base/errors.js';
import { wrong } from './base/options.js';
import { sharedBytes, sharedPart } from './files/source.js';
import { watchHelpers } from './platform/helpers-node.js';
import { localLink } from './platform/link-local.js';
import { asUrl, fileError, platform } from './platform/platform-node.js';
import { HttpFile } from './ranges/cold-http.js';
import { openStore } from './ranges/cold-store-node.js';
import { cacheOf } from './ranges/cold-store.js';
import { serveCold } from './ranges/cold-worker.js';
import { coldLoader } from './ranges/cold.js';
import { threadsModule } from './threads-node.js';

export { NEURON } from './ranges/cold-layers.js';
export { WispError } from './base/errors.js';

/** The models that are kept in the folder. */
export const cache = cacheOf(
  openStore,
  async () => true,
  (source) => String(asUrl(source) ?? source),
);

/**
 * A file on disk, a RangeFile. It is opened for each range, so that nothing stays open if an embedder is not closed.
 */
class DiskFile {
  size = 0;
  isWhole = false;
  requests = 0;
  received = 0;
  name;
  /** Size and times of the file, to notice that another one took its place. */
  #state = '';

  /** @param {string} path */
  constructor(path) {
    this.name = path;
  }

  /**
   * @param {import('./ranges/cold-ranges.js').Range} range
   * @param {import('./ranges/cold-ranges.js').Bytes} bytes
   * @param {AbortSignal} signal
   */
  async read([start, end], bytes, signal) {
    try {
      const file = await open(this.name);
      try {
        await this.#check(file);
        const part = new Uint8Array(Math.min(end, this.size) - start);
        for (let at = 0; at < part.length;) {
          throwIfAborted(signal);
          const { bytesRead } = await file.read(part, at, part.length - at, start + at);
          if (bytesRead === 0) throw new WispError('io', `${this.name} has become shorter`);
          at += bytesRead;
        }
        this.requests++;
        this.received += part.length;
        await this.#check(file); // bytes that were read before the file was written to are valid
        bytes.write(start, part);
      } finally {
        await file.close();
      }
    } catch (error) {
      throw fileError(error, this.name);
    }
  }

  /** @param {import('node:fs/promises').FileHandle} file */
  async #check(file) {
    const { dev, ino, size, mtimeNs } = await file.stat({ bigint: true });
    const state = `${dev} ${ino} ${size} ${mtimeNs}`;
    this.#state ||= state;
    this.size ||= Number(size);
    if (state !== this.#state) {
      throw new WispError(
        'io',
        `${this.name}: the file has changed since it was opened; load it again`,
      );
    }
  }
}

platform.cold = coldLoader({
  openFile(source) {
    if (typeof source === 'string' || source instanceof URL) {
      const url = asUrl(source);
      if (!url) return new DiskFile(String(source));
      if (url.protocol === 'file:') return new DiskFile(fileURLToPath(url));
      if (/^https?:$/.test(url.protocol)) return new HttpFile(url.href);
    }
    throw wrong('cold', 'the source is not a path or URL, of which parts could be read');
  },
  openStore,
  hold(bytes) {
    const shared = sharedBytes(bytes.length);
    shared.set(bytes);
    return sharedPart(shared);
  },
  own: {
    worker: () =>
      new Worker(new URL('./cold-worker-node.js', import.meta.url), {
        name: 'wisp',
        execArgv: [],
      }),
    local: localLink(serveCold),
  },
  script: 'cold-worker-node',
  threadsModule,
  watch: watchHelpers,
});
