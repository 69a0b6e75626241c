// SPDX-License-Identifier: Apache-2.0
// The files of workers with threads in Node.
import { Worker } from 'node:worker_threads';
import { threadsLoader } from './calls/threads-load.js';
import { watchHelpers } from './platform/helpers-node.js';

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
      new Worker(new URL('./threads-worker-node.js', import.meta.url), {
        name: 'wisp',
        execArgv: [],
      }),
  },
  'threads-worker-node',
  watchHelpers,
);
