// SPDX-License-Identifier: Apache-2.0
// Questions to a page's worker, one at a time.

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
 * Inside a worker: answers each message with what `action` gives; rows are moved, not copied.
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
