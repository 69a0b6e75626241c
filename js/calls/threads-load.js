// SPDX-License-Identifier: Apache-2.0
// Workers with threads: what Node and browsers share. The engine of a worker has helpers, which take a part of a single
// text, or some of the texts of a larger task.
import { NoWorkersError } from '../base/errors.js';
import { countWorkers, load } from './load.js';
import { MOST_THREADS, countThreads } from './threads-count.js';

/** @typedef {import('../../types/internal.js').Platform} Platform */
/** @typedef {import('../../types/internal.js').Own} Own */
/** @typedef {import('../../types/internal.js').Loaded} Loaded */

/**
 * A task of bulk work has so many chunks for each thread, which wait for each other at its end. Single texts wait
 * for that, too: for so many milliseconds after one, tasks have one chunk for each thread.
 */
const CHUNKS_PER_THREAD = 4;
const URGENT_MS = 10_000;

/** Errors by which threads may be impossible if workers with memory of their own are not. */
const ONLY_THREADS = /^(worker|memory|unsupported|not_found)$/;

/**
 * Makes the function that load calls if workers may have threads.
 * @param {Pick<Own, 'module' | 'worker'>} own of modules with threads
 * @param {string} script the name of the worker's
 * @param {(platform: Platform) => Platform} [watch]
 * @returns {NonNullable<Own['withThreads']>}
 */
export const threadsLoader =
  (own, script, watch = (platform) => platform) =>
  async (platform, plain, source, { threads, ...options }) => {
    const without = () => load(platform, plain, source, options);
    /** @type {unknown} why the model could not be read, which without threads is no other */
    let unread;
    /** @type {Platform['readModel']} */
    const readModel = (...of) =>
      platform.readModel(...of).catch((error) => {
        throw (unread = error);
      });
    const withCount = async (/** @type {number} */ count, /** @type {number} */ workers) => {
      const names = { ...plain.names, threads: 'wisp-embed-threads', worker: script };
      const tasks = new LargerTasks();
      const hooks = [...(plain.hooks ?? []), tasks];
      const parts = { ...plain, ...own, names, hooks, threads: () => count };
      const all = { ...options, threads: count, workers };
      const loaded = await load(watch({ ...platform, readModel }), parts, source, all);
      // Fewer may have started than were asked for; native engines do not say.
      tasks.threads = /** @type {{ threads?: number }} */ (loaded.pool.info).threads ?? count;
      return tell(loaded, tasks.threads);
    };
    if (threads === undefined) {
      const { count, reason } = countTeam(platform, plain, options);
      if (count < 2) return without();
      let why;
      try {
        const loaded = await withCount(count, 1);
        why = loaded.about.reasons.threads;
        if (!why) return explain(loaded, { workers: reason });
        await loaded.pool.destroy();
        await loaded.release();
      } catch (/** @type {any} */ error) {
        if (error === unread || !ONLY_THREADS.test(error.code)) throw error;
        why = error.message;
      }
      const loaded = await without();
      const { workers } = loaded.about.reasons;
      return explain(loaded, { workers: `${workers}; none share memory: ${why}` });
    }

    const asked = threads === 'auto' ? undefined : threads;
    const count = countThreads(platform, { ...options, threads });
    const { shared, reason } = platform.sharing();
    const why = asked ? 'asked for' : `one for each of ${platform.cores()} cores, at most 4`;
    try {
      if (count > 0) {
        const loaded = await withCount(count, options.workers ?? 1);
        return explain(loaded, { threads: why, ...loaded.about.reasons });
      }
    } catch (error) {
      if (!(error instanceof NoWorkersError)) throw error;
    }
    const alone = tell(await without(), 1);
    const { workers, reasons } = alone.about;
    return explain(alone, { threads: workers === 0 ? reasons.workers : shared ? why : reason });
  };

/**
 * Returns how many threads do the work of a pool's workers, in one worker: less than two if they cannot. Scripts and
 * modules that the caller names have no threads.
 * @param {Platform} platform
 * @param {Own} own
 * @param {import('./load.js').LoadOptions} options
 */
function countTeam(platform, own, { workers, worker, wasm, integrity }) {
  const { workers: count, reason } = countWorkers(platform, own, workers);
  const isOwn = !worker && !wasm && !integrity?.wasm;
  return {
    count: isOwn && count <= MOST_THREADS && platform.sharing().shared ? count : 0,
    reason: `${count} threads of one worker share its memory: ${reason}`,
  };
}

/**
 * @param {Loaded} loaded
 * @param {number} threads of each worker
 * @returns {Loaded}
 */
const tell = (loaded, threads) => ({ ...loaded, about: { ...loaded.about, threads } });

/**
 * @param {Loaded} loaded
 * @param {Partial<Loaded['about']['reasons']>} reasons
 * @returns {Loaded}
 */
function explain(loaded, reasons) {
  const { about } = loaded;
  return { ...loaded, about: { ...about, reasons: { ...about.reasons, ...reasons } } };
}

/** Hooks of a pool whose workers have threads, which share its tasks. */
class LargerTasks {
  threads = 1;
  #urgentUntil = 0;

  /** @param {import('./job.js').Job} job */
  submitted({ urgent }) {
    if (urgent) this.#urgentUntil = performance.now() + URGENT_MS;
  }

  /** @param {number} tokens */
  taken(tokens) {
    if (this.threads === 1) return tokens;
    return tokens * this.threads * (performance.now() < this.#urgentUntil ? 1 : CHUNKS_PER_THREAD);
  }
}
