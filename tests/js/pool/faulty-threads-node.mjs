// SPDX-License-Identifier: Apache-2.0
// As faulty-node.mjs, with threads.
import { parentPort } from 'node:worker_threads';
import { startHelperOf } from '../../../js/platform/helpers-node.js';
import { serveTeam } from '../../../js/engine/threads-worker.js';
import { failAtBoot, serveFaults } from './faults.mjs';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const host = {
  post: (/** @type {any} */ message, /** @type {any} */ transfer) =>
    port.postMessage(message, transfer),
  exit: () => process.exit(7),
};
const helper = new URL('../../../js/threads-worker-node.js', import.meta.url).href;
await failAtBoot((process.argv[2] ?? '').replace('boot=', ''), host);
const receive = serveFaults(host, (post) => serveTeam(post, startHelperOf(helper)));
port.on('message', (request) => setImmediate(() => void receive(request)));
