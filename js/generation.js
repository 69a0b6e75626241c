// SPDX-License-Identifier: Apache-2.0
// The generator's own files, in browsers and in Node.
import { localLink } from './link-local.js';
import { serveText } from './text-worker.js';
import { countThreads } from './threads.js';

/**
 * @param {string} name the worker's file, without its folder and ending
 * @param {() => any} worker starts one: bundlers need that expression where its environment is known
 * @returns {import('./load.js').Own}
 */
export const generationFiles = (name, worker) => ({
  module(build, threads) {
    if (build === 'relaxed') {
      return threads
        ? new URL('./wisp-threads-relaxed.wasm', import.meta.url)
        : new URL('./wisp-generate-relaxed.wasm', import.meta.url);
    }
    return threads
      ? new URL('./wisp-threads-simd128.wasm', import.meta.url)
      : new URL('./wisp-generate-simd128.wasm', import.meta.url);
  },
  model: () => new URL('../models/wisp-stories.gguf', import.meta.url),
  worker,
  names: {
    module: 'wisp-generate',
    threads: 'wisp-threads',
    model: 'wisp-stories',
    worker: name,
  },
  local: localLink((post) => serveText(post)),
  mostWorkers: 1,
  threads: countThreads,
});
