// SPDX-License-Identifier: Apache-2.0
import { ChangeJob } from './job.js';
import { Queue } from './queue.js';

/** @typedef {import('./job.js').Job} Job */

/**
 * Jobs that nobody has taken, with changes of what they run by in between: a change is taken when all
 * that came before it has been, and what came after it waits until it is settled.
 */
export class Backlog {
  #queue = new Queue();
  /** @type {{ change: ChangeJob, queue: Queue }[]} each with what came after it */
  #changes = [];

  /** Texts that wait. */
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
   * Takes a settled job out; what waited for a change waits for the one before it.
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
