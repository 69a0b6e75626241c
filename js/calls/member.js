// SPDX-License-Identifier: Apache-2.0
import { WispError, unpackError } from '../base/errors.js';
import { complete } from './job.js';

/** @typedef {import('../../types/internal.js').Link} Link */

/** Ids are unique among all workers, so that no late reply is ever taken for another. */
let lastId = 0;

/** One worker of a pool: what it does now, and how it ends. */
export class Member {
  /** @type {import('../../types/internal.js').Task | undefined} */
  task;
  ready = false;
  /** @type {WispError | undefined} why it ended */
  ended;
  /** @type {import('../../types/protocol.js').Usage | undefined} */
  usage;
  /** @type {any} the timer that ends it when it has had no task for some time */
  rest;
  /** The info of its engine, once ready. */
  info;
  /** @type {(lent?: ArrayBuffer) => void} */
  #giveBack = () => {};
  /** The bytes that it was lent, when it has opened the model; undefined if it has ended. */
  lent = new Promise((resolve) => (this.#giveBack = resolve));
  /** @type {import('../base/options.js').SparseOptions} what its layers run by */
  sparse;
  #id = 0;
  /** @type {Link | undefined} */
  #link;
  #onIdle;
  #onEnd;

  /**
   * @param {import('../../types/internal.js').StartLink} start
   * @param {() => Promise<any>} open gives the request that makes it ready
   * @param {import('../base/options.js').SparseOptions} sparse that is in the request
   * @param {import('../../types/internal.js').MemberEvents} on
   */
  constructor(start, open, sparse, { idle, end }) {
    this.sparse = sparse;
    this.#onIdle = idle;
    this.#onEnd = end;
    this.info = /** @type {import('../engine/engine.js').EngineInfo | undefined} */ (undefined);
    void this.#open(start, open);
  }

  /**
   * @param {import('../../types/internal.js').StartLink} start
   * @param {() => Promise<any>} open
   */
  async #open(start, open) {
    try {
      this.#link = start({
        reply: (reply) => {
          try {
            this.#receive(reply);
          } catch (cause) {
            this.discard(toWorkerError(cause)); // the reply is malformed
          }
        },
        end: (error) => this.discard(error),
      });
      const request = await open();
      if (!this.ended) this.#post(request);
    } catch (cause) {
      // The pool must know this member before it is told that the member has ended.
      queueMicrotask(() => this.discard(toWorkerError(cause)));
    }
  }

  /**
   * Gives the worker a task. A request that cannot be sent fails its job; the worker stays idle.
   * @param {import('../../types/internal.js').Task} task
   */
  run(task) {
    this.task = task;
    if (task.ready)
      task.ready.then(() => this.#begin(task), () => this.#skip(task)); // prettier-ignore
    else this.#begin(task);
  }

  /** @param {import('../../types/internal.js').Task} task that nobody wants any more */
  #skip(task) {
    if (this.task !== task || this.ended) return;
    this.#becomeIdle();
    this.#onIdle(this);
  }

  /** @param {import('../../types/internal.js').Task} task */
  #begin(task) {
    if (task.ready && (this.ended || task.job.settled)) return this.#skip(task);
    try {
      this.#post(task.request);
    } catch (cause) {
      this.#becomeIdle();
      task.job.fail(toWorkerError(cause));
    }
  }

  /** Tells the worker that nobody wants its task any more. */
  interrupt() {
    if (this.#id === 0) return;
    if (this.task?.part) this.#link?.post({ type: 'stop' });
    else this.#link?.cancel?.();
  }

  /**
   * Ends the worker because of an error. May be called more than once.
   * @param {WispError} error
   */
  discard(error) {
    if (this.ended) return;
    void this.stop(error);
    this.#onEnd(this, error);
  }

  /**
   * Ends the worker because the pool is closed.
   * @param {WispError} error
   */
  async stop(error) {
    this.ended ??= error;
    this.#giveBack();
    await this.#link?.stop();
  }

  /** @param {any} request */
  #post(request) {
    const link = /** @type {Link} */ (this.#link);
    this.#id = ++lastId;
    link.hold(true);
    const bytes = request.model?.bytes;
    link.post({ ...request, id: this.#id }, bytes && [bytes]);
  }

  #becomeIdle() {
    this.task = undefined;
    this.#id = 0;
    this.#link?.hold(false);
  }

  /** @param {import('../../types/protocol.js').Reply} reply */
  #receive(reply) {
    if (this.ended) return;
    if (reply.id !== this.#id || this.#id === 0) {
      this.discard(new WispError('worker', 'a worker sent a reply that nobody asked for'));
    } else if (reply.type === 'part') {
      if (this.task && !this.task.job.settled) this.task.part?.(reply.value);
    } else if (reply.type === 'done') {
      this.#succeed(reply);
    } else {
      this.#fail(unpackError(reply.error), reply.fatal);
    }
  }

  /** @param {import('../../types/protocol.js').Done} reply */
  #succeed({ value, usage, lent }) {
    const { task } = this;
    this.usage = usage;
    if (!this.ready) {
      this.ready = true;
      this.info = value;
      this.#giveBack(lent);
    }
    if (task?.sparse) this.sparse = task.sparse;
    this.#becomeIdle();
    if (task) complete(task, value);
    this.#onIdle(this);
  }

  /**
   * @param {WispError} error
   * @param {boolean} fatal
   */
  #fail(error, fatal) {
    if (fatal || !this.ready) {
      this.discard(error);
      return;
    }
    const { task } = this;
    this.#becomeIdle();
    task?.job.fail(error);
    this.#onIdle(this);
  }
}

/** @param {unknown} cause */
function toWorkerError(cause) {
  if (cause instanceof WispError) return cause;
  const { message } = /** @type {Error} */ (cause);
  return new WispError('worker', `a worker cannot be used: ${message}`, { cause });
}
