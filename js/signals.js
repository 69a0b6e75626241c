// SPDX-License-Identifier: Apache-2.0

/** @type {WeakMap<AbortSignal, Set<() => void>>} */
const waiting = new WeakMap();

/**
 * Calls `body` when the signal is aborted. A signal gets one listener, however many calls share it:
 * Node warns of a leak from the eleventh on.
 * @param {AbortSignal} signal
 * @param {() => void} body
 * @returns {() => void} takes `body` back
 */
export function onAbort(signal, body) {
  let bodies = waiting.get(signal);
  if (!bodies) {
    const all = (bodies = new Set());
    waiting.set(signal, all);
    signal.addEventListener('abort', () => all.forEach((each) => each()), { once: true });
  }
  bodies.add(body);
  return () => void bodies.delete(body);
}
