// SPDX-License-Identifier: Apache-2.0
// How many threads a worker has.
import { LOAD_OPTIONS } from '../base/options.js';

/** At most so many threads unless asked for more. */
const DEFAULT_MOST_THREADS = 4;
/** The module has room for this many. */
export const MOST_THREADS = Number(LOAD_OPTIONS.threads.most);

/**
 * Returns how many threads each worker has; 0 if there is no shared memory for them.
 * @param {import('../../types/internal.js').Platform} platform
 * @param {Pick<import('./load.js').LoadOptions, 'threads' | 'workers' | 'wasm'>} options
 */
export function countThreads(platform, { threads, workers, wasm }) {
  if (workers === 0 || platform.noWorkers() || !platform.sharing().shared) return 0;
  const most = Math.min(platform.cores(), DEFAULT_MOST_THREADS);
  const count = threads === undefined || threads === 'auto' ? most : threads;
  return count > 1 || wasm ? count : 0;
}
