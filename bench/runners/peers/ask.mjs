// SPDX-License-Identifier: Apache-2.0
// Questions to a worker, one at a time, in Node and in a page.

/**
 * @param {any} worker a Worker of either kind
 * @returns {(message: object) => Promise<any>}
 */
export function askerOf(worker) {
  /** @type {(message: any) => void} */
  let settle;
  if (worker.addEventListener) {
    worker.onmessage = (/** @type {MessageEvent} */ event) => settle(event.data);
    worker.onerror = (/** @type {ErrorEvent} */ event) => settle({ error: event.message });
  } else {
    worker.on('message', (/** @type {any} */ message) => settle(message));
    worker.on('error', (/** @type {Error} */ error) => settle({ error: error.message }));
  }
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
export async function answerWith(action) {
  const port = /** @type {any} */ (
    globalThis.WorkerGlobalScope ? globalThis : (await import('node:worker_threads')).parentPort
  );
  const listen = async (/** @type {any} */ message) => {
    try {
      const reply = await action(message);
      port.postMessage(reply, reply.rows ? [reply.rows.buffer] : []);
    } catch (error) {
      port.postMessage({ error: String(/** @type {Error} */ (error).message ?? error) });
    }
  };
  if (port.on) port.on('message', listen);
  else port.onmessage = (/** @type {MessageEvent} */ event) => listen(event.data);
}
