// SPDX-License-Identifier: Apache-2.0
// The files of workers with threads in a browser.
import { threadsLoader } from './calls/threads-load.js';
import { startHelpers } from './platform/helpers-page.js';

/** @type {import('../types/internal.js').Own['module']} */
export const threadsModule = (build) =>
  build === 'relaxed'
    ? new URL('./wisp-embed-threads-relaxed.wasm', import.meta.url)
    : new URL('./wisp-embed-threads-simd128.wasm', import.meta.url);

export const withThreads = threadsLoader(
  {
    module: threadsModule,
    // Bundlers recognise exactly this expression.
    worker: () =>
      new Worker(new URL('./threads-worker-browser.js', import.meta.url), {
        type: 'module',
        // webpack gives the file this name, too.
        name: 'wisp-threads',
      }),
  },
  'threads-worker-browser',
  startHelpers,
);
