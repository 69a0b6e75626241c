// SPDX-License-Identifier: Apache-2.0
// A thread of Node that tries damaged models, so that the test can end it if it hangs.
import { parentPort, workerData } from 'node:worker_threads';
import { Embedder } from '../../../js/node.js';
import { MutantError, tryMutants } from './try-mutants.mjs';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
try {
  const before = (/** @type {number} */ number) => port.postMessage({ number });
  port.postMessage({ counts: await tryMutants({ Embedder, ...workerData, before }) });
} catch (error) {
  const { stack } = /** @type {Error} */ (/** @type {Error} */ (error).cause ?? error);
  const bytes = error instanceof MutantError ? error.bytes : undefined;
  port.postMessage({ error: `${/** @type {Error} */ (error).message}\n${stack}`, bytes });
}
