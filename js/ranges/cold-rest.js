// SPDX-License-Identifier: Apache-2.0
// Fetches the rest of a file while no text waits, so that after a while none has to.
import { WispError } from '../base/errors.js';
import { isOutage } from '../hub/hub.js';

/** @typedef {import('./cold-ranges.js').Ranges} Ranges */

/** The bytes of a request: a text that begins to wait meanwhile shares the line with no more than these. */
const REQUEST_BYTES = 512 * 1024;

/** Texts that waited may soon wait for the neurons of their next layer. */
const QUIET_MS = 100;

/** After a failure, the time to the next try, which doubles each time; and the failures in a row that end it. */
const FIRST_WAIT_MS = 1000;
const MOST_FAILURES = 8;

/** The time to the next try while another page fetches the rest of the same file. */
const BUSY_MS = 200;

/**
 * Runs `body`, which returns true, unless another page of this origin does so; then returns false.
 * @param {string | undefined} name
 * @param {() => Promise<boolean>} body
 */
async function alone(name, body) {
  const { locks } = /** @type {{ locks?: LockManager }} */ (globalThis.navigator ?? {});
  if (!locks || !name) return body();
  return locks.request(name, { ifAvailable: true }, async (lock) => (lock ? body() : false));
}

/** The requests for what nobody has asked for yet, one at a time, in the order of the file. */
export class Rest {
  /** @type {'off' | 'running' | 'done' | 'failed'} */
  state = 'running';
  /** Why it failed. @type {unknown} */
  error;
  #ranges;
  #size;
  #onDone;
  /** Nothing before this byte is fetched: what a store loses again is fetched when a text needs it. */
  #at = 0;
  #isBusy = false;
  #failures = 0;
  /** Milliseconds to the next request. The first leaves the line to a text that comes as soon as the model is open. */
  #wait = QUIET_MS;
  /** @type {any} */
  #timer;

  /**
   * @param {Ranges} ranges
   * @param {number} size of the file
   * @param {() => void} onDone
   */
  constructor(ranges, size, onDone) {
    this.#ranges = ranges;
    this.#size = size;
    this.#onDone = onDone;
    ranges.onChange = () => this.#plan();
    this.#plan();
  }

  /** Makes the next request when no text has waited for a while. */
  #plan() {
    if (this.state !== 'running' || this.#isBusy) return;
    if (!this.#ranges.isIdle) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#wait = Math.max(this.#wait, QUIET_MS);
      return;
    }
    this.#timer ??= setTimeout(() => void this.#fetch(), this.#wait);
    // A program of Node that has nothing else to do ends.
    this.#timer.unref?.();
  }

  async #fetch() {
    this.#timer = undefined;
    this.#isBusy = true;
    try {
      this.#wait = 0;
      if (!(await alone(this.#ranges.kept?.lock, () => this.#fetchNext()))) this.#wait = BUSY_MS;
    } catch (error) {
      const mayPass = isOutage(error) || (error instanceof WispError && error.code === 'format');
      if (mayPass && ++this.#failures < MOST_FAILURES) {
        this.#wait = FIRST_WAIT_MS * 2 ** (this.#failures - 1);
      } else if (this.state === 'running') {
        this.state = 'failed';
        this.error = error;
      }
    }
    this.#isBusy = false;
    if (this.state === 'running') this.#plan();
    else this.#ranges.onChange(); // who watches learns that it has ended
  }

  async #fetchNext() {
    const ranges = this.#ranges;
    await ranges.kept?.refresh(); // other pages and processes store chunks too
    if (this.state !== 'running') return true;
    if (ranges.limit < Infinity && (!ranges.kept || ranges.kept.full)) {
      this.state = 'off'; // nobody would have what comes
      return true;
    }
    const [range] = ranges.absent([this.#at, this.#size]);
    if (!range) {
      this.state = 'done';
      this.#onDone();
    } else if (ranges.isIdle) {
      const bytes = Math.max(REQUEST_BYTES, ranges.kept?.chunkBytes ?? 0);
      const end = Math.min(range[1], range[0] + bytes);
      await ranges.fetchRest([range[0], end]);
      this.#at = end;
      this.#failures = 0;
    }
    return true;
  }

  stop() {
    if (this.state === 'running') this.state = 'off';
    clearTimeout(this.#timer);
  }
}
