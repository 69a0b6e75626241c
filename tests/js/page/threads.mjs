// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of the option threads run inside a page.
import { Embedder } from '../../../js/browser.js';
import { cases as poolCases } from '../pool/cases.mjs';
import { cases } from '../threads/cases.mjs';

const FAULTY = new URL('../pool/faulty-browser.mjs?threads', import.meta.url);
const SMALL = '/build/test-models/cls12.gguf';
const CALIBRATED = '/build/test-models/cls12-calibrated.gguf';

/** @param {string} name */
export async function runThreadsCase(name) {
  await cases[name]({
    Embedder: /** @type {any} */ (Embedder),
    model: undefined,
    calibrated: CALIBRATED,
    shared: crossOriginIsolated,
    makeWorker: () => new Worker('/js/threads-worker-browser.js', { type: 'module' }),
    makesThreads: crossOriginIsolated,
    killWorker: (worker) => worker.terminate(),
  });
}

/**
 * Runs a case of a pool whose workers have threads.
 * @param {string} name
 */
export async function runThreadsFault(name) {
  const load = (/** @type {any} */ model, /** @type {any} */ options) =>
    Embedder.load(
      model,
      typeof options === 'object' && options ? { threads: 2, ...options } : options,
    );
  await poolCases[name]({
    Embedder: /** @type {any} */ ({ load }),
    model: await (await fetch(SMALL)).blob(),
    calibrated: await (await fetch(CALIBRATED)).blob(),
    makeWorker(query = '') {
      const url = new URL(FAULTY);
      if (query) url.search += `&${query}`;
      return new Worker(url, { type: 'module' });
    },
    killWorker: (worker) => worker.terminate(),
    failMessage: (worker) => worker.dispatchEvent(new MessageEvent('messageerror')),
    missingScript: new URL('./no-such-worker.mjs', import.meta.url).href,
  });
}
