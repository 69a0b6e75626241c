// SPDX-License-Identifier: Apache-2.0
// The embedder's own files in Node.
import { Worker } from 'node:worker_threads';
import { serve } from './engine/worker.js';
import { findAddon } from './native/addon-node.js';
import { startNative } from './native/native-engine.js';
import { localLink } from './platform/link-local.js';
import { compileRead } from './platform/platform-node.js';
import { withThreads } from './threads-node.js';

/** @type {import('../types/internal.js').Own} */
export const own = {
  module: (build) =>
    build === 'relaxed'
      ? new URL('./wisp-relaxed.wasm', import.meta.url)
      : new URL('./wisp-simd128.wasm', import.meta.url),
  model: () => new URL('../models/wisp-default.gguf', import.meta.url),
  // Bundlers recognise exactly this expression.
  worker: () =>
    new Worker(new URL('./worker-node.js', import.meta.url), {
      name: 'wisp',
      execArgv: [],
    }),
  names: {
    module: 'wisp',
    model: 'wisp-default',
    worker: 'worker-node',
  },
  local: localLink(serve),
  withThreads,
  native: (options) => findAddon(options, startNative),
  mostWorkers: 4,
};

/** @param {import('../types/internal.js').Build} build */
export const compileBuild = (build) => compileRead(() => own.module(build));
