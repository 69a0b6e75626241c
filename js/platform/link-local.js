// SPDX-License-Identifier: Apache-2.0
// A worker's code on the calling thread, for a pool without workers.

/** Node's, of which tests with fake timers replace the global one later. */
const { setImmediate } = /** @type {any} */ (globalThis);

/**
 * Runs `body` in a task of its own. Browsers delay timers, in hidden tabs by a second and more, but not
 * messages. In Node a port would keep the process running.
 * @param {() => void} body
 */
export function nextTask(body) {
  if (setImmediate) return void setImmediate(body);
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    body();
  };
  port2.postMessage(undefined);
}

/**
 * @param {import('../engine/worker.js').Serve} serve
 * @returns {import('../../types/internal.js').StartLink}
 */
export const localLink =
  (serve) =>
  ({ reply }) => {
    let stopped = false;
    const receive = serve((message) => {
      if (!stopped) reply(message);
    });
    return {
      // Each message is a task of its own, so that the page stays responsive between chunks.
      post(message) {
        const request = /** @type {any} */ (message);
        nextTask(() => {
          // Else a text that is being written would go on to its end.
          if (!stopped || request.type === 'stop') void receive(request);
        });
      },
      hold() {},
      async stop() {
        stopped = true;
      },
    };
  };
