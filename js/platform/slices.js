// SPDX-License-Identifier: Apache-2.0
// Long work of the calling thread in short tasks, between which others run.
import { throwIfAborted } from '../base/errors.js';
import { nextTask } from './link-local.js';

/**
 * Work that can be divided: it yields wherever it may pause, at least once in a millisecond.
 * @template T
 * @typedef {Generator<void, T, void>} Steps
 */

/** Milliseconds of a task: a page draws every 16, and what is collected as garbage comes on top. */
const TASK_MS = 4;

/**
 * Runs work to its end in one task.
 * @template T
 * @param {Steps<T>} steps
 * @returns {T}
 */
export function atOnce(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * Runs work for one task at most. Returns what it is when it is done, else undefined.
 * @template T
 * @param {Steps<T>} steps
 * @returns {{ value: T } | undefined}
 */
export function oneTask(steps) {
  for (const since = performance.now(); ;) {
    const { done, value } = steps.next();
    if (done) return { value };
    if (performance.now() - since > TASK_MS) return undefined;
  }
}

/**
 * Runs work in tasks of some milliseconds. The first of them is the caller's, so that short work is done when this
 * returns. Rejects between two tasks if the signal is aborted.
 * @template T
 * @param {Steps<T>} steps
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function inSlices(steps, signal) {
  try {
    for (;;) {
      throwIfAborted(signal);
      const end = oneTask(steps);
      if (end) return end.value;
      await new Promise((resolve) => nextTask(() => resolve(undefined)));
    }
  } finally {
    steps.return(/** @type {any} */ (undefined));
  }
}
