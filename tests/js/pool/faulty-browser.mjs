// SPDX-License-Identifier: Apache-2.0
// Beside what it does wrong, it holds a lock as js/worker-browser.js does.
import { startHelper } from '../../../js/platform/helpers-browser.js';
import { serveTeam } from '../../../js/engine/threads-worker.js';
import { failAtBoot, serveFaults } from './faults.mjs';

const scope = /** @type {DedicatedWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));
const host = {
  post: (/** @type {any} */ message, /** @type {any} */ transfer = []) =>
    scope.postMessage(message, transfer),
  exit: () => scope.close(),
};
const told = new URL(import.meta.url).searchParams;
await failAtBoot(told.get('boot') ?? '', host);
const withThreads = (/** @type {any} */ post) => serveTeam(post, startHelper);
const receive = serveFaults(host, told.has('threads') ? withThreads : undefined);
const lock = scope.isSecureContext ? `faulty-${crypto.randomUUID()}` : undefined;
const held = new Promise((resolve) => {
  if (!lock) {
    scope.postMessage({ hello: undefined });
    resolve(undefined);
    return;
  }
  scope.navigator.locks.request(lock, () => {
    scope.postMessage({ hello: lock });
    resolve(undefined);
    return new Promise(() => {});
  });
});
scope.onmessage = async ({ data }) => {
  await held;
  // An error in a promise would not be one of the worker's.
  setTimeout(() => void receive(data), 0);
};
