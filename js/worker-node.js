// SPDX-License-Identifier: Apache-2.0
// What a worker thread of Node runs.
import { parentPort } from 'node:worker_threads';
import { serve } from './worker.js';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
port.on(
  'message',
  serve((reply, transfer) => port.postMessage(reply, /** @type {any} */ (transfer))),
);
