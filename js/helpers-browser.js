// SPDX-License-Identifier: Apache-2.0
// Helpers of a Web Worker: workers of its own script.

/** @type {import('./threads.js').StartHelper} */
export function startHelper(request) {
  const worker = new Worker(globalThis.location.href, { type: 'module', name: 'wisp helper' });
  const ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => void (data.team && resolve(undefined));
    worker.onerror = reject;
    worker.postMessage(request);
  });
  return { ready, stop: () => worker.terminate() };
}
