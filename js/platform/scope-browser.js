// SPDX-License-Identifier: Apache-2.0
// Messages between a Web Worker and the page.

const scope = /** @type {DedicatedWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));

/** @param {import('../engine/worker.js').Serve} serve */
export function listen(serve) {
  const receive = serve((reply, transfer) => scope.postMessage(reply, transfer));
  const held = holdLock().then((hello) => scope.postMessage({ hello }));
  // Messages are served only when the page can notice that this worker ends.
  scope.onmessage = async ({ data }) => {
    await held;
    await receive(data);
  };
}

/**
 * No event tells a page that a worker has ended. So the worker holds a lock while it lives, and the
 * page waits for that lock. Browsers have locks in secure contexts.
 * @returns {Promise<string | undefined>} the lock's name, undefined if there is none
 */
function holdLock() {
  const { locks } = scope.navigator;
  if (!locks) return Promise.resolve(undefined);
  const name = `wisp-worker-${crypto.randomUUID()}`;
  return new Promise((resolve) => {
    const hold = () => {
      resolve(name);
      return new Promise(() => {});
    };
    locks.request(name, hold).catch(() => resolve(undefined));
  });
}
