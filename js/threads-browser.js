// SPDX-License-Identifier: Apache-2.0
// wisp-engine/threads as a browser imports it: Embedder.load with the option threads.
import { startHelpers } from './helpers-browser.js';
import { localLink } from './link-local.js';
import { platform } from './platform-browser.js';
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
    worker: () =>
      new Worker(new URL('./threads-worker-browser.js', import.meta.url), {
        type: 'module',
        // webpack gives the file this name, too.
        name: 'wisp-threads',
      }),
    local: localLink((post) => serveTeam(post)),
  },
  'threads-worker-browser',
  startHelpers,
);
