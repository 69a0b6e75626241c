// SPDX-License-Identifier: Apache-2.0
import { WispError } from '../base/errors.js';
import { addTotals, noTotals } from '../engine/usage.js';
import { release } from '../files/lent.js';
import { ChangeJob, FollowJob } from './job.js';
import { Member } from './member.js';
import { Backlog } from './queue.js';

/** A worker that is busy with an aborted task for so long is replaced. A chunk takes some 10 ms. */
const STUCK_MS = 10_000;

/** The longest time of setTimeout, 24 days. */
const MOST_TIMEOUT = 2 ** 31 - 1;

/** A text may be what ends workers, so a task is given to another worker twice at most. */
const MOST_LOSSES = 3;

/** Workers with one model, and their jobs: see PoolParts in types/internal.d.ts. */
export class Pool {
  #size;
  #start;
  #files;
  #options;
  /** The sparse options of the next task. */
  #sparse;
  #queueLimit;
  #hooks;
  #backlog = new Backlog();
  /**
   * Tasks whose worker ended, with the sparse options that they are to be computed by.
   * @type {{ task: import('../../types/internal.js').Task, sparse: import('../base/options.js').SparseOptions }[]}
   */
  #again = [];
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
  /** @type {WeakSet<import('../../types/internal.js').Task>} tasks that may keep their worker only for STUCK_MS */
  #watched = new WeakSet();
  #totals = noTotals();
  #lost = 0;
  #idleTimeout;
  /** Workers that were ended because they had nothing to do, and not started again. */
  #resting = 0;
  /** Ends when the workers so far have opened the model. @type {Promise<unknown>} */
  #turn = Promise.resolve();
  /** The info of the engines. */
  info = /** @type {import('../engine/engine.js').EngineInfo | undefined} */ (undefined);

  /** @param {import('../../types/internal.js').PoolParts} parts */
  constructor({ size, start, files, options, queueLimit, idleTimeout, hooks = [] }) {
    this.#size = size;
    this.#start = start;
    this.#files = files;
    this.#options = options;
    const { predictor, sparsity } = options;
    this.#sparse = /** @type {import('../base/options.js').SparseOptions} */ ({
      predictor,
      sparsity,
    });
    this.#queueLimit = queueLimit;
    this.#idleTimeout = idleTimeout;
    this.#hooks = hooks;
  }

  /**
   * Starts all workers. If one of them cannot start, all are ended.
   * @param {(ready: number) => void} onReady
   */
  async open(onReady) {
    try {
      await new Promise((resolve, reject) => {
        this.#opened = (error) => {
          if (error) return reject(error);
          const ready = [...this.#members].filter((member) => member.ready).length;
          try {
            onReady(ready);
          } catch (thrown) {
            return reject(thrown);
          }
          if (ready === this.#size) resolve(undefined);
        };
        this.#fill();
      });
      void this.#turn.then(async () => release((await this.#files)[1]));
    } catch (error) {
      await this.destroy();
      throw error;
    } finally {
      this.#opened = undefined;
      this.#pump();
    }
  }

  /**
   * @param {import('./job.js').Job} job
   * @returns {Promise<any>} the job's promise
   */
  submit(job) {
    const refusal = this.#closed ?? this.#refusal(job);
    if (refusal) job.fail(refusal);
    else this.#hooks.forEach((hook) => hook.submitted?.(job));
    if (job.waiting === 0) job.finishEmpty();
    if (!job.settled) {
      this.#pending.add(job);
      job.onSettled = () => this.#forget(job);
      job.onDone = (values) => this.#hooks.forEach((hook) => hook.done?.(job, values));
      this.#backlog.add(job);
      this.#fill();
      this.#pump();
    }
    return job.promise;
  }

  /**
   * Changes the sparse options of jobs that are submitted from now on.
   * @param {import('../base/options.js').SparseOptions} options
   */
  setSparse(options) {
    return this.submit(
      new ChangeJob(options, (info) => {
        this.#sparse = options;
        this.info = info;
      }),
    );
  }

  /** Waits for the jobs there are, then ends the workers. */
  close() {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  /** Fails the jobs there are and ends the workers. */
  destroy() {
    const closing = this.close();
    this.#failPending(new WispError('closed', 'the model was destroyed'));
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
      .../** @type {object} */ (Object.assign({}, ...this.#hooks.map((hook) => hook.stats?.()))),
      ...totals,
      memoryBytes,
      workers: this.#members.size,
      busyWorkers,
      lostWorkers: this.#lost,
      waitingTexts: this.#backlog.texts,
    };
  }

  /** @param {import('./job.js').Job} job */
  #refusal(job) {
    if (this.#queueLimit === Infinity) return undefined;
    const waiting = this.#backlog.texts;
    if (waiting + job.waiting <= this.#queueLimit) return undefined;
    return new WispError(
      'busy',
      `${waiting} texts are waiting and ${job.waiting} more would exceed queueLimit ` +
        `${this.#queueLimit}`,
      { field: 'queueLimit' },
    );
  }

  async #finish() {
    this.#closed = new WispError('closed', 'the model is closed');
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
    this.#backlog.remove(job);
    this.#watchForStuck();
    if (this.#pending.size === 0) this.#drained();
  }

  /** A job that ended before its tasks was aborted. A worker that stays busy with it is replaced. */
  #watchForStuck() {
    for (const member of this.#members) {
      const { task } = member;
      if (!task?.job.settled || this.#watched.has(task)) continue;
      this.#watched.add(task);
      member.interrupt();
      const timer = setTimeout(() => {
        if (member.task === task) member.discard(new WispError('worker', 'a worker was stuck'));
      }, STUCK_MS);
      /** @type {any} */ (timer).unref?.();
    }
  }

  /** Starts the workers that are missing, and of those that rest as many as have something to do. */
  #fill() {
    if (this.#resting > 0) {
      const free = [...this.#members].filter((member) => !member.task).length;
      const wanted = Math.max(this.#backlog.texts - free, free ? 0 : 1);
      this.#resting -= Math.min(this.#resting, wanted);
    }
    while (this.#members.size + this.#resting < this.#size) this.#startMember();
  }

  /**
   * Ends a worker when it has had no task for some time.
   * @param {Member} member
   */
  #restLater(member) {
    if (this.#opened || this.#idleTimeout > MOST_TIMEOUT) return;
    member.rest ??= setTimeout(() => {
      if (!this.#members.delete(member)) return;
      this.#resting++;
      this.#retire(member);
      void member.stop(new WispError('worker', 'the worker rests'));
    }, this.#idleTimeout);
    /** @type {any} */ (member.rest).unref?.();
  }

  #startMember() {
    const sparse = this.#sparse;
    const options = { ...this.#options, ...sparse };
    const before = this.#turn;
    const open = async () => {
      const [module, model] = await this.#files;
      if (!('bytes' in model)) return { type: 'open', module, model, options };
      await before;
      if (added.ended) throw added.ended; // the bytes are for a pool without workers
      const request = { type: 'open', module, model: { ...model }, options };
      model.bytes = undefined;
      return request;
    };
    const added = new Member(this.#start, open, sparse, {
      idle: (member) => {
        this.info ??= member.info;
        this.#opened?.();
        this.#pump();
      },
      end: (member, error) => this.#lose(member, error),
    });
    this.#members.add(added);
    this.#turn = Promise.all([added.lent, this.#files, before])
      .then(([bytes, [, model]]) => bytes && Object.assign(model, { bytes }))
      .catch(() => {}); // open reports it
  }

  /** Gives tasks to the workers that have none. */
  #pump() {
    for (const member of this.#members) {
      while (member.ready && !member.task && !member.ended) {
        const task = this.#nextTask(member);
        if (!task) {
          this.#restLater(member);
          break;
        }
        clearTimeout(member.rest);
        member.rest = undefined;
        member.run(task);
      }
    }
  }

  /** @param {Member} member */
  #nextTask(member) {
    this.#again = this.#again.filter(({ task }) => !task.job.settled);
    const sparse = this.#again[0]?.sparse ?? this.#sparse;
    if (member.sparse !== sparse) {
      return new FollowJob(sparse, (error) => member.discard(error)).take();
    }
    return (
      this.#again.shift()?.task ??
      this.#backlog.next(this.#size, (tokens) =>
        this.#hooks.reduce((most, hook) => hook.taken?.(most) ?? most, tokens),
      )
    );
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
    for (const task of member.task?.parts ?? [member.task]) {
      if (task) this.#giveAgain(task, member.sparse, error);
    }
    if (this.#closed && this.#pending.size === 0) return;
    if (member.task) this.#startMember();
    else if (this.#members.size === 0) this.#failPending(error);
    this.#pump();
  }

  /**
   * @param {import('../../types/internal.js').Task} task whose worker has ended
   * @param {import('../base/options.js').SparseOptions} sparse
   * @param {WispError} error
   */
  #giveAgain(task, sparse, error) {
    task.losses = (task.losses ?? 0) + 1;
    if (!task.sparse && task.losses < MOST_LOSSES) return void this.#again.push({ task, sparse });
    task.job.fail(error);
    // No worker may be lost without end on the way to earlier options.
    if (task.sparse && task.sparse !== this.#sparse) {
      const given = this.#again.filter((again) => again.sparse === task.sparse);
      given.forEach((again) => again.task.job.fail(error));
    }
  }
}
