// SPDX-License-Identifier: Apache-2.0
// The files of workers with threads in Node.
import { Worker } from 'node:worker_threads';
import { watchHelpers } from './helpers-node.js';
import { threadsLoader } from './threads-load.js';

export const withThreads = threadsLoader(
  {
    module: (build) =>
      build === 'relaxed'
        ? new URL('./wisp-embed-threads-relaxed.wasm', import.meta.url)
        : new URL('./wisp-embed-threads-simd128.wasm', import.meta.url),
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
