// SPDX-License-Identifier: Apache-2.0
// What a worker thread of Node runs.
import { parentPort } from 'node:worker_threads';
import { serve } from './worker.js';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const receive = serve((reply, transfer) => port.postMessage(reply, /** @type {any} */ (transfer)));

// Not in the message's own callback: there, Node 20 never replaces the module's first, quick
// compilation by optimised code, and everything takes 2.2 times as long.
port.on('message', (request) => setImmediate(() => void receive(request)));
