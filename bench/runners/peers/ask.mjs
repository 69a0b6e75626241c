// SPDX-License-Identifier: Apache-2.0
// Sends messages to a page's worker, one at a time, and returns its answers.

/**
 * @param {Worker} worker
 * @returns {(message: object) => Promise<any>}
 */
export function askerOf(worker) {
  /** @type {(message: any) => void} */
  let settle;
  worker.onmessage = (event) => settle(event.data);
  worker.onerror = (event) => settle({ error: event.message });
  return async (message) => {
    const reply = await new Promise((resolve) => {
      settle = resolve;
      worker.postMessage(message);
    });
    if (reply.error) throw new Error(reply.error);
    return reply;
  };
}

/**
 * Runs inside a worker: answers each message with the result of `action`. Moves rows, never copies.
 * @param {(message: any) => Promise<any>} action
 */
export function answerWith(action) {
  globalThis.onmessage = async ({ data }) => {
    try {
      const reply = await action(data);
      globalThis.postMessage(reply, reply.rows ? [reply.rows.buffer] : []);
    } catch (error) {
      globalThis.postMessage({ error: String(/** @type {Error} */ (error).message ?? error) });
    }
  };
}
