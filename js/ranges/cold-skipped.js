// SPDX-License-Identifier: Apache-2.0
// How many neurons rows were computed without.
import { EmbedJob } from '../calls/job.js';

/** The counts of texts, on their way from a worker to the rows of a call: hooks of its pool. */
export class Skipped {
  /** @type {WeakMap<ArrayBufferLike, { counts: Float64Array, size: number }>} by the buffer of the rows */
  #counts = new WeakMap();

  /**
   * Records the counts of texts.
   * @param {Float32Array} rows of the texts
   * @param {Float64Array} counts
   */
  note(rows, counts) {
    this.#counts.set(rows.buffer, { counts, size: rows.length / counts.length });
  }

  /** @param {import('../calls/job.js').Job} job whose rows are to have their counts */
  submitted(job) {
    if (job instanceof EmbedJob) Object.assign(job.rows, { skipped: 0 });
  }

  /**
   * @param {import('../calls/job.js').Job} job
   * @param {Float32Array} values of rows, some of those that a worker sent, which may be of several calls
   */
  done(job, values) {
    if (!(job instanceof EmbedJob)) return;
    const { counts, size = 1 } = this.#counts.get(values.buffer) ?? {};
    if (!counts) return;
    const first = values.byteOffset / 4 / size;
    const own = counts.subarray(first, first + values.length / size);
    const rows = /** @type {import('../../types/index.js').Rows} */ (/** @type {unknown} */ (job.rows)); // prettier-ignore
    rows.skipped = own.reduce((sum, count) => sum + count, rows.skipped ?? 0);
  }
}
