// SPDX-License-Identifier: Apache-2.0
// The script of a generator's Web Worker, and of those that help it.
import { listen } from './scope-browser.js';
import { serveText } from './text-worker.js';

/** @type {import('./threads.js').StartHelper} */
function startHelper(request) {
  const worker = new Worker(globalThis.location.href, { type: 'module', name: 'wisp helper' });
  const ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => void (data.team && resolve(undefined));
    worker.onerror = reject;
    worker.postMessage(request);
  });
  return { ready, stop: () => worker.terminate() };
}

listen((post) => serveText(post, startHelper));
