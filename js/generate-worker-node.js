// SPDX-License-Identifier: Apache-2.0
// The script of a generator's worker thread of Node, and of those that help it.
import { MessageChannel, Worker, parentPort } from 'node:worker_threads';
import { listen } from './scope-node.js';
import { serveText } from './text-worker.js';

/** @type {import('./threads.js').StartHelper} */
function startHelper(request) {
  const worker = new Worker(new URL(import.meta.url), { name: 'wisp helper', execArgv: [] });
  // The port that the helper has closes when it ends, and so does the other one.
  const { port1, port2 } = new MessageChannel();
  const ready = new Promise((resolve, reject) => {
    worker.on('message', ({ team }) => {
      parentPort?.postMessage({ helper: { port: port1, team } }, [port1]);
      resolve(undefined);
    });
    worker.on('error', reject);
    worker.on('exit', reject);
    worker.postMessage({ ...request, port: port2 }, [port2]);
  });
  return { ready, stop: () => void worker.terminate() };
}

listen((post) => serveText(post, startHelper));
