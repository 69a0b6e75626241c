// SPDX-License-Identifier: Apache-2.0
// Helpers of a Web Worker: workers of its own script.

/**
 * Returns the kind of this worker's script. Bundlers make classic ones, too.
 * @returns {WorkerType}
 */
function ownType() {
  try {
    /** @type {any} */ (globalThis).importScripts('data:,'); // throws in a module
    return 'classic';
  } catch {
    return 'module';
  }
}

/** @type {import('./threads.js').StartHelper} */
export function startHelper(request) {
  const worker = new Worker(globalThis.location.href, { type: ownType(), name: 'wisp helper' });
  const ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => void (data.team && resolve(undefined));
    worker.onerror = (event) => {
      event.preventDefault(); // else the error is the worker's, too, which can do without this helper
      reject(event);
    };
    worker.postMessage(request);
  });
  return { ready, stop: () => worker.terminate() };
}
