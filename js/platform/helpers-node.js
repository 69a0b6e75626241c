// SPDX-License-Identifier: Apache-2.0
// Helpers of a worker thread of Node: worker threads of its own script.
import { MessageChannel, Worker, parentPort } from 'node:worker_threads';
import { failTeam } from './team-failure.js';

/**
 * @param {string} url of the script
 * @returns {import('../engine/threads.js').StartHelper}
 */
export const startHelperOf = (url) => (request) => {
  const worker = new Worker(new URL(url), { name: 'wisp helper', execArgv: [] });
  // The port that the helper has closes when it ends, and so does the other one.
  const { port1, port2 } = new MessageChannel();
  const ready = new Promise((resolve, reject) => {
    worker.on('message', ({ team }) => {
      parentPort?.postMessage({ helper: { port: port1, team } }, [port1]);
      resolve(undefined);
    });
    worker.on('error', reject);
    worker.on('exit', () => reject(new Error('the thread ended')));
    worker.postMessage({ ...request, port: port2 }, [port2]);
  });
  return { ready, stop: () => void worker.terminate() };
};

/**
 * Returns the platform with workers whose helpers are watched. A worker cannot watch them: it hears nothing
 * while it waits for them.
 * @param {import('../../types/internal.js').Platform} platform
 * @returns {import('../../types/internal.js').Platform}
 */
export const watchHelpers = (platform) => ({
  ...platform,
  startWorker(...how) {
    const start = platform.startWorker(...how);
    return ({ reply, end }) =>
      start({
        reply(/** @type {any} */ message) {
          if (!message?.helper) return reply(message);
          const { port, team } = message.helper;
          port.on('close', () => failTeam(team));
          port.unref();
        },
        end,
      });
  },
});
