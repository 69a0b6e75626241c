// SPDX-License-Identifier: Apache-2.0
// Embedder.load with the option threads: what Node and browsers share. The engine of a worker has helpers, which
// take a part of a single text, or some of the texts of a larger task.
import { load } from './load.js';
import { countThreads } from './threads.js';

/** @typedef {import('../types/internal.js').Platform} Platform */
/** @typedef {import('../types/internal.js').Own} Own */

/**
 * A task of bulk work has so many chunks for each thread, which wait for each other at its end. Single texts wait
 * for that, too: for so many milliseconds after one, tasks have one chunk for each thread.
 */
const CHUNKS_PER_THREAD = 4;
const URGENT_MS = 10_000;

/**
 * Makes the function that load calls for the option threads.
 * @param {Pick<Own, 'module' | 'worker' | 'local'>} own of modules with threads
 * @param {string} script the name of the worker's
 * @param {(platform: Platform) => Platform} [watch]
 * @returns {NonNullable<Platform['threads']>}
 */
export const threadsLoader =
  (own, script, watch = (platform) => platform) =>
  async (platform, plain, source, { threads, ...options }) => {
    const asked = threads === 'auto' ? undefined : threads;
    const count = countThreads(platform, { ...options, threads: asked });
    const why = asked ? 'asked for' : `one for each of ${platform.cores()} cores, at most 4`;
    if (count === 0) {
      const { shared, reason } = platform.sharing();
      const loaded = await load(platform, plain, source, options);
      const { workers, reasons } = loaded.about;
      return withThreads(loaded, 1, workers === 0 ? reasons.workers : shared ? why : reason);
    }
    const loaded = await load(
      watch(platform),
      {
        ...plain,
        ...own,
        names: { ...plain.names, threads: 'wisp-embed-threads', worker: script },
        threads: () => count,
        mostWorkers: 1,
      },
      source,
      { ...options, threads: count },
    );
    const { pool, about } = loaded;
    // Native engines do not say how many they have.
    const { threads: found = count } = /** @type {{ threads?: number }} */ (pool.info);
    if (found > 1) enlargeTasks(pool, found);
    const fewer = about.workers === 0 ? about.reasons.workers : `${found} of ${count} started`;
    return withThreads(loaded, found, found === count ? why : fewer);
  };

/**
 * @param {import('../types/internal.js').Loaded} loaded
 * @param {number} threads
 * @param {string} reason for their number
 */
function withThreads(loaded, threads, reason) {
  const { about } = loaded;
  const reasons = { ...about.reasons, threads: reason };
  return { ...loaded, about: { ...about, threads, reasons } };
}

/**
 * @param {import('./pool.js').Pool} pool
 * @param {number} threads
 */
function enlargeTasks(pool, threads) {
  const submit = pool.submit.bind(pool);
  let urgentUntil = 0;
  pool.submit = (job) => {
    if (job.urgent) urgentUntil = performance.now() + URGENT_MS;
    const take = job.take.bind(job);
    job.take = (budget) => {
      const chunks = performance.now() < urgentUntil ? 1 : CHUNKS_PER_THREAD;
      return take(chunks * threads * budget);
    };
    return submit(job);
  };
}
