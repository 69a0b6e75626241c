// SPDX-License-Identifier: Apache-2.0
// How a Web Worker asks its page for helpers: see helpers-page.js.

const scope = /** @type {DedicatedWorkerGlobalScope} */ (/** @type {unknown} */ (globalThis));

/** @type {import('../engine/threads.js').StartHelper} */
export function startHelper(request) {
  const { port1, port2 } = new MessageChannel();
  const ready = new Promise((resolve, reject) => {
    port1.onmessage = ({ data }) =>
      'why' in data ? reject(new Error(data.why)) : resolve(undefined);
  });
  scope.postMessage({ helper: request, port: port2 }, [port2]);
  return {
    ready,
    stop() {
      port1.postMessage('stop');
      port1.close();
    },
  };
}
