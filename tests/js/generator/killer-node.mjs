// SPDX-License-Identifier: Apache-2.0
// A generator's worker that ends one of its helpers, without a trap, when it is asked for a text.
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
await import('../../../js/generate-worker-node.js');
parentPort?.on('message', ({ type }) => {
  if (type === 'write') void helpers[0].terminate();
});
