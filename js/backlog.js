// SPDX-License-Identifier: Apache-2.0
import { ChangeJob } from './job.js';
import { Queue } from './queue.js';

/** @typedef {import('./job.js').Job} Job */

/**
 * Jobs that wait, with changes of the sparse options between them. A change is taken when all jobs
 * before it have been taken; the jobs after it wait until the change is settled.
 */
export class Backlog {
  #queue = new Queue();
  /** @type {{ change: ChangeJob, queue: Queue }[]} each with the jobs after it */
  #changes = [];

  /** Number of waiting texts. */
  get texts() {
    return this.#queues.reduce((sum, queue) => sum + queue.texts, 0);
  }

  get #queues() {
    return [this.#queue, ...this.#changes.map(({ queue }) => queue)];
  }

  /** @param {Job} job */
  add(job) {
    if (job instanceof ChangeJob) this.#changes.push({ change: job, queue: new Queue() });
    else (this.#changes.at(-1)?.queue ?? this.#queue).add(job);
  }

  /**
   * Removes a settled job. The jobs after a removed change then wait for the change before it.
   * @param {Job} job
   */
  remove(job) {
    for (const queue of this.#queues) queue.remove(job);
    const at = this.#changes.findIndex(({ change }) => change === job);
    if (at < 0) return;
    const [{ queue }] = this.#changes.splice(at, 1);
    const before = this.#changes[at - 1]?.queue ?? this.#queue;
    for (const waiting of queue.jobs) before.add(waiting);
  }

  /**
   * @param {number} workers among whom bulk work is shared
   * @returns {import('./job.js').Task | undefined}
   */
  next(workers) {
    if (!this.#queue.empty) return this.#queue.next(workers);
    const change = this.#changes[0]?.change;
    return change && !change.taken ? change.take() : undefined;
  }
}
