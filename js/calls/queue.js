// SPDX-License-Identifier: Apache-2.0
import { ChangeJob, EmbedJob, gather } from './job.js';

/** @typedef {import('./job.js').Job} Job */

/**
 * Limits of a chunk's estimated tokens. The engine computes CHUNK_MOST at once; the limit bounds how
 * long a short text waits for a worker. Below CHUNK_LEAST messages would cost too much.
 */
const CHUNK_MOST = 256;
const CHUNK_LEAST = 64;

/** Chunks that the rest of a job is divided into for each worker. With more, workers end together. */
const CHUNKS_PER_WORKER = 4;

/** After this many single texts in a row comes a chunk of bulk work, so that bulk work goes on. */
const URGENT_IN_A_ROW = 8;

/** Jobs with tasks that no worker has taken. Single texts go first; bulk jobs take turns. */
export class Queue {
  /** @type {Job[]} */
  #urgent = [];
  /** @type {Job[]} */
  #bulk = [];
  #inARow = 0;

  /** Number of waiting texts. */
  get texts() {
    return this.jobs.reduce((sum, job) => sum + job.waiting, 0);
  }

  get jobs() {
    return [...this.#urgent, ...this.#bulk];
  }

  get empty() {
    return this.#urgent.length === 0 && this.#bulk.length === 0;
  }

  /** @param {Job} job */
  add(job) {
    (job.urgent ? this.#urgent : this.#bulk).push(job);
  }

  /** @param {Job} job */
  remove(job) {
    for (const lane of [this.#urgent, this.#bulk]) {
      const at = lane.indexOf(job);
      if (at >= 0) lane.splice(at, 1);
    }
  }

  /**
   * @param {number} workers among whom bulk work is shared
   * @param {(tokens: number) => number} [taken] returns the tokens of the task, which would have so many
   * @returns {import('../../types/internal.js').Task | undefined}
   */
  next(workers, taken = (tokens) => tokens) {
    const bulkIsDue = this.#bulk.length > 0 && this.#inARow >= URGENT_IN_A_ROW;
    const urgent = bulkIsDue ? undefined : this.#urgent.shift();
    this.#inARow = urgent ? this.#inARow + 1 : 0;
    const job = urgent ?? this.#bulk.shift();
    if (urgent?.waiting === 1) return this.#gather(urgent, workers, taken);
    const task = job?.take(taken(chunkTokens(job, workers)));
    if (job && job.waiting > 0) this.add(job);
    return task;
  }

  /**
   * Returns a task of a job and, if many single texts wait, of those behind it: so many that the
   * workers share them, and fewer towards the end, as with bulk work.
   * @param {Job} first
   * @param {number} workers
   * @param {(tokens: number) => number} taken
   */
  #gather(first, workers, taken) {
    const lane = this.#urgent;
    const most = Math.ceil((lane.length + 1) / (2 * workers));
    if (!(first instanceof EmbedJob) || most === 1) return first.take(taken(CHUNK_MOST));
    const jobs = [first];
    let tokens = first.tokensLeft;
    while (jobs.length < most) {
      const next = lane[0];
      if (!(next instanceof EmbedJob) || next.waiting !== 1 || next.kind !== first.kind) break;
      tokens += next.tokensLeft;
      if (tokens > CHUNK_MOST) break;
      jobs.push(next);
      lane.shift();
    }
    return gather(jobs);
  }
}

/**
 * @param {Job} job
 * @param {number} workers
 */
function chunkTokens(job, workers) {
  if (workers === 1) return CHUNK_MOST;
  const share = Math.ceil(job.tokensLeft / (workers * CHUNKS_PER_WORKER));
  return Math.min(Math.max(share, CHUNK_LEAST), CHUNK_MOST);
}

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
   * @param {(tokens: number) => number} taken as of Queue
   * @returns {import('../../types/internal.js').Task | undefined}
   */
  next(workers, taken) {
    if (!this.#queue.empty) return this.#queue.next(workers, taken);
    const change = this.#changes[0]?.change;
    return change && !change.taken ? change.take() : undefined;
  }
}
