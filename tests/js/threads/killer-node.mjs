// SPDX-License-Identifier: Apache-2.0
// A worker with threads that ends one of them, without a trap, when it is asked for something: its data name the
// worker's script and the type of the request.
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';

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
await import(workerData.script);
parentPort?.on('message', ({ type }) => {
  if (type === workerData.asked) void helpers[0].terminate();
});
