// SPDX-License-Identifier: Apache-2.0
// An embedder's worker with threads that ends one of them, without a trap, when it is asked for rows.
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { parentPort } from 'node:worker_threads';

const threads = createRequire(import.meta.url)('node:worker_threads');
const helpers = /** @type {import('node:worker_threads').Worker[]} */ ([]);
threads.Worker = class extends threads.Worker {
  /** @param {any[]} of */
  constructor(...of) {
    super(...of);
    helpers.push(/** @type {any} */ (this));
  }
};
syncBuiltinESMExports();
await import('../../../js/threads-worker-node.js');
parentPort?.on('message', ({ type }) => {
  if (type === 'embed') void helpers[0].terminate();
});
