// SPDX-License-Identifier: Apache-2.0
// The script of a generator's worker thread of Node, and of those that help it.
import { Worker } from 'node:worker_threads';
import { listen } from './scope-node.js';
import { serveText } from './text-worker.js';

/** @type {import('./threads.js').StartHelper} */
function startHelper(request) {
  const worker = new Worker(new URL(import.meta.url), { name: 'wisp helper', execArgv: [] });
  const ready = new Promise((resolve, reject) => {
    worker.on('message', resolve);
    worker.on('error', reject);
    worker.on('exit', reject);
    worker.postMessage(request);
  });
  return { ready, stop: () => void worker.terminate() };
}

listen((post) => serveText(post, startHelper));
