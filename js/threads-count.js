// SPDX-License-Identifier: Apache-2.0
// How many threads a worker has.
import { shown, wrong } from './options.js';

/** At most so many threads unless asked for more. */
const DEFAULT_MOST_THREADS = 4;
/** The module has room for this many. */
export const MOST_THREADS = 8;

/**
 * Returns how many threads each worker has; 0 where there is no shared memory for them.
 * @param {import('../types/internal.js').Platform} platform
 * @param {{ threads?: number, workers?: number, wasm?: unknown }} options
 */
export function countThreads(platform, { threads, workers, wasm }) {
  if (
    threads !== undefined &&
    !(Number.isInteger(threads) && threads >= 1 && threads <= MOST_THREADS)
  ) {
    throw wrong('threads', `${shown(threads)} is not a whole number from 1 to ${MOST_THREADS}`);
  }
  if (workers === 0 || platform.noWorkers() || !platform.sharing().shared) return 0;
  const count = threads ?? Math.min(platform.cores(), DEFAULT_MOST_THREADS);
  return count > 1 || wasm ? count : 0;
}
