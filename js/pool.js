// SPDX-License-Identifier: Apache-2.0
import { WispError } from './errors.js';
import { Member } from './member.js';
import { Queue } from './queue.js';

/**
 * How long a worker may go on with a task that nobody waits for any more, before it is taken for
 * stuck and replaced. A chunk takes some tens of milliseconds.
 */
const STUCK_MS = 10_000;

/** What of a worker's usage adds up over workers that come and go. */
const TOTALS = /** @type {const} */ (['texts', 'tokens', 'truncatedTexts']);

/**
 * Workers with one model, and the jobs they do.
 *
 * A worker that ends fails the job it was at, with its cause, and is replaced. No respawn storm can
 * come of it: a new worker is started only for a task that was lost with its worker, or for a job
 * that was submitted when workers were missing. One that never gets ready is not replaced; when
 * none is left, the waiting jobs fail with its cause.
 */
export class Pool {
  #size;
  #start;
  #open;
  #queueLimit;
  #queue = new Queue();
  /** @type {Set<Member>} */
  #members = new Set();
  /** @type {Set<import('./job.js').Job>} jobs whose promises are pending */
  #pending = new Set();
  /** @type {WispError | undefined} */
  #closed;
  /** @type {Promise<void> | undefined} */
  #closing;
  #drained = () => {};
  /** @type {((error?: WispError) => void) | undefined} settles open() */
  #opened;
  #totals = noTotals();
  #lost = 0;
  /** What the engines say of themselves. */
  info = /** @type {ReturnType<import('./engine.js').Engine['info']> | undefined} */ (undefined);

  /**
   * @param {object} how
   * @param {number} how.size workers
   * @param {import('./member.js').StartLink} how.start
   * @param {Omit<import('./protocol.js').OpenRequest, 'id'>} how.open
   * @param {number} how.queueLimit texts that may wait at once
   */
  constructor({ size, start, open, queueLimit }) {
    this.#size = size;
    this.#start = start;
    this.#open = open;
    this.#queueLimit = queueLimit;
  }

  /**
   * Starts all workers. If one of them cannot start, none stays.
   * @param {(ready: number) => void} onReady
   */
  async open(onReady) {
    try {
      await new Promise((resolve, reject) => {
        this.#opened = (error) => {
          if (error) return reject(error);
          const ready = [...this.#members].filter((member) => member.ready).length;
          onReady(ready);
          if (ready === this.#size) resolve(undefined);
        };
        this.#fill();
      });
    } catch (error) {
      await this.destroy();
      throw error;
    } finally {
      this.#opened = undefined;
    }
  }

  /**
   * @param {import('./job.js').Job} job
   * @returns {Promise<any>} the job's promise
   */
  submit(job) {
    const refusal = this.#closed ?? this.#refusal(job);
    if (refusal) job.fail(refusal);
    else if (job.waiting === 0) job.finishEmpty();
    if (!job.settled) {
      this.#pending.add(job);
      job.onSettled = () => this.#forget(job);
      this.#queue.add(job);
      this.#fill();
      this.#pump();
    }
    return job.promise;
  }

  /** Waits for the jobs there are, then ends the workers. */
  close() {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  /** Fails the jobs there are and ends the workers. */
  destroy() {
    const closing = this.close();
    this.#failPending(new WispError('closed', 'the embedder was destroyed'));
    return closing;
  }

  /** Numbers of now, and totals since the pool was opened. */
  stats() {
    const totals = noTotals();
    addTotals(totals, this.#totals);
    let memoryBytes = 0;
    let busyWorkers = 0;
    for (const { usage, task } of this.#members) {
      addTotals(totals, usage);
      memoryBytes += usage?.memoryBytes ?? 0;
      if (task) busyWorkers++;
    }
    return {
      ...totals,
      /** WebAssembly memory of all workers. */
      memoryBytes,
      workers: this.#members.size,
      busyWorkers,
      lostWorkers: this.#lost,
      waitingTexts: this.#queue.texts,
    };
  }

  /** @param {import('./job.js').Job} job */
  #refusal(job) {
    if (this.#queueLimit === Infinity) return undefined;
    const waiting = this.#queue.texts;
    if (waiting + job.waiting <= this.#queueLimit) return undefined;
    return new WispError(
      'busy',
      `${waiting} texts are waiting and ${job.waiting} more would exceed queueLimit ` +
        `${this.#queueLimit}`,
      { field: 'queueLimit' },
    );
  }

  async #finish() {
    this.#closed = new WispError('closed', 'the embedder is closed');
    this.#opened?.(this.#closed);
    if (this.#pending.size > 0)
      await new Promise((done) => (this.#drained = () => done(undefined)));
    const members = [...this.#members];
    this.#members.clear();
    members.forEach((member) => this.#retire(member));
    const error = this.#closed;
    await Promise.all(members.map((member) => member.stop(error)));
  }

  /** @param {WispError} error */
  #failPending(error) {
    for (const job of [...this.#pending]) job.fail(error);
  }

  /** @param {import('./job.js').Job} job */
  #forget(job) {
    this.#pending.delete(job);
    this.#queue.remove(job);
    this.#watchForStuck(job);
    if (this.#pending.size === 0) this.#drained();
  }

  /**
   * A job that ended before its tasks did was aborted: a worker that stays with it is replaced.
   * @param {import('./job.js').Job} job
   */
  #watchForStuck(job) {
    for (const member of this.#members) {
      const { task } = member;
      if (task?.job !== job) continue;
      const timer = setTimeout(() => {
        if (member.task === task) member.discard(new WispError('worker', 'a worker was stuck'));
      }, STUCK_MS);
      /** @type {any} */ (timer).unref?.();
    }
  }

  /** Starts the workers that are missing. */
  #fill() {
    while (this.#members.size < this.#size) this.#startMember();
  }

  #startMember() {
    this.#members.add(
      new Member(this.#start, this.#open, {
        idle: (member) => {
          this.info ??= member.info;
          this.#opened?.();
          this.#pump();
        },
        end: (member, error) => this.#lose(member, error),
      }),
    );
  }

  /** Gives tasks to the workers that have none. */
  #pump() {
    for (const member of this.#members) {
      while (member.ready && !member.task && !this.#queue.empty) {
        const task = this.#queue.next(this.#size);
        if (task) member.run(task);
      }
    }
  }

  /** @param {Member} member */
  #retire(member) {
    addTotals(this.#totals, member.usage);
  }

  /**
   * @param {Member} member that has ended
   * @param {WispError} error
   */
  #lose(member, error) {
    if (!this.#members.delete(member)) return;
    this.#lost++;
    this.#retire(member);
    this.#opened?.(error);
    member.task?.job.fail(error);
    if (this.#closed && this.#pending.size === 0) return;
    if (member.task) this.#startMember();
    else if (this.#members.size === 0) this.#failPending(error);
  }
}

/**
 * @typedef {Record<typeof TOTALS[number], number> &
 *   { stageSeconds: import('./engine.js').StageSeconds }} Totals
 */

/** @returns {Totals} */
function noTotals() {
  return { texts: 0, tokens: 0, truncatedTexts: 0, stageSeconds: {} };
}

/**
 * @param {Totals} totals
 * @param {Totals | undefined} more
 */
function addTotals(totals, more) {
  if (!more) return;
  for (const name of TOTALS) totals[name] += more[name];
  for (const [stage, seconds] of Object.entries(more.stageSeconds)) {
    totals.stageSeconds[stage] = (totals.stageSeconds[stage] ?? 0) + seconds;
  }
}
