// SPDX-License-Identifier: Apache-2.0
// How many neurons rows were computed without.
import { EmbedJob } from './job.js';

/** The counts of texts, on their way from a worker to the call of its rows. */
export class Skipped {
  /** @type {WeakMap<ArrayBufferLike, { counts: Float64Array, size: number }>} by the buffer of the rows */
  #counts = new WeakMap();

  /**
   * Takes down the counts of texts.
   * @param {Float32Array} rows of the texts
   * @param {Float64Array} counts
   */
  note(rows, counts) {
    this.#counts.set(rows.buffer, { counts, size: rows.length / counts.length });
  }

  /**
   * Lets rows say how many neurons they were computed without.
   * @param {import('./pool.js').Pool} pool
   */
  tell(pool) {
    const submit = pool.submit.bind(pool);
    pool.submit = async (job) => {
      if (!(job instanceof EmbedJob)) return submit(job);
      let skipped = 0;
      const take = job.take.bind(job);
      job.take = (budget) => {
        const task = take(budget);
        const { done } = task;
        task.done = (values) => {
          // Rows of several calls come in one buffer.
          const { counts, size } = this.#counts.get(values.buffer) ?? {};
          const first = values.byteOffset / 4 / (size ?? 1);
          const own = counts?.subarray(first, first + values.length / (size ?? 1)) ?? [];
          for (const count of own) skipped += count;
          done(values);
        };
        return task;
      };
      return Object.assign(await submit(job), { skipped });
    };
  }
}
