// SPDX-License-Identifier: Apache-2.0
// Messages between a worker thread of Node and the program.
import { parentPort } from 'node:worker_threads';

/** @param {import('../engine/worker.js').Serve} serve */
export function listen(serve) {
  const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
  const receive = serve((reply, transfer) =>
    port.postMessage(reply, /** @type {any} */ (transfer)),
  );
  // Requests are not served in the message's callback: there Node 20 never replaces the module's first,
  // quick compilation by optimised code, and everything takes 2.2 times as long.
  port.on('message', (request) => setImmediate(() => void receive(request)));
}
