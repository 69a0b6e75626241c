// SPDX-License-Identifier: Apache-2.0
// Beside what it does wrong, it holds a lock as js/worker-browser.js does.
import { failAtBoot, serveFaults } from './faults.mjs';

const scope = /** @type {DedicatedWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));
const host = {
  post: (/** @type {any} */ message, /** @type {any} */ transfer = []) =>
    scope.postMessage(message, transfer),
  exit: () => scope.close(),
};
await failAtBoot(new URL(import.meta.url).searchParams.get('boot') ?? '', host);
const receive = serveFaults(host);
scope.onmessage = ({ data }) => {
  // An error in a promise would not be one of the worker's.
  receive(data);
};
const lock = `faulty-${crypto.randomUUID()}`;
scope.navigator.locks.request(lock, () => {
  scope.postMessage({ hello: lock });
  return new Promise(() => {});
});
