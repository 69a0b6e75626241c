// SPDX-License-Identifier: Apache-2.0
// wisp-engine/threads as Node imports it: Embedder.load with the option threads.
import { Worker } from 'node:worker_threads';
import { watchHelpers } from './helpers-node.js';
import { localLink } from './link-local.js';
import { WORKER_OPTIONS, platform } from './platform-node.js';
import { threadsLoader } from './threads-load.js';
import { serveTeam } from './threads-worker.js';

export { WispError } from './errors.js';

platform.threads = threadsLoader(
  {
    module: (build) =>
      build === 'relaxed'
        ? new URL('./wisp-embed-threads-relaxed.wasm', import.meta.url)
        : new URL('./wisp-embed-threads-simd128.wasm', import.meta.url),
    // Bundlers recognise exactly this expression.
    worker: () => new Worker(new URL('./threads-worker-node.js', import.meta.url), WORKER_OPTIONS),
    local: localLink((post) => serveTeam(post)),
  },
  'threads-worker-node',
  watchHelpers,
);
