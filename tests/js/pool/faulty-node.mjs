// SPDX-License-Identifier: Apache-2.0
import { parentPort } from 'node:worker_threads';
import { failAtBoot, serveFaults } from './faults.mjs';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const host = {
  post: (/** @type {any} */ message, /** @type {any} */ transfer) =>
    port.postMessage(message, transfer),
  exit: () => process.exit(7),
};
await failAtBoot((process.argv[2] ?? '').replace('boot=', ''), host);
port.on('message', serveFaults(host));
