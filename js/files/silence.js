// SPDX-License-Identifier: Apache-2.0
// Servers that send nothing, or never end.
import { WispError } from '../base/errors.js';

export const limits = {
  /** A request that has brought no byte for so many milliseconds is aborted, */
  silence: 30_000,
  /** and so is one that has brought fewer bytes for each millisecond of that time: 100 a second. */
  slowest: 0.1,
  /** The most bytes of a body whose server does not say how long it is: in memory, and on a disk. */
  endless: 2 ** 30,
  endlessOnDisk: 2 ** 34,
};

/** Watches that bytes come. */
export class Silence {
  /** Bytes that have arrived. */
  came = 0;
  /** Whether the request was aborted. */
  isOver = false;
  #counted = 0; // until the time limit began
  #stop;
  #limit;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {() => void} stop is called once if too little comes
   * @param {number} [limit] milliseconds
   */
  constructor(stop, limit = limits.silence) {
    this.#stop = stop;
    this.#limit = limit;
    this.restart();
  }

  /** Begins the time again. @param {number} [pause] milliseconds in which nothing has to come */
  restart(pause = 0) {
    clearTimeout(this.#timer);
    this.#counted = this.came;
    this.#timer = setTimeout(() => {
      this.isOver = true;
      this.#stop();
    }, this.#limit + pause);
  }

  /** @param {number} bytes that have arrived */
  add(bytes) {
    this.came += bytes;
    if (this.came >= this.#counted + this.#limit * limits.slowest) this.restart();
  }

  end() {
    clearTimeout(this.#timer);
  }

  /** Describes what has arrived, for a message. @param {number} [all] bytes that should come */
  shown(all) {
    const of = all === undefined ? '' : ` of ${all}`;
    return `${this.came}${of} bytes have come, ${this.came - this.#counted} in the last ${this.#limit} ms`;
  }
}

/**
 * Refuses a body that has become too long, of which nobody said how long it is.
 * @param {string} name
 * @param {number} came
 * @param {number | undefined} size as the server said
 * @param {number} [most]
 */
export function checkEndless(name, came, size, most = limits.endless) {
  if (size !== undefined || came <= most) return;
  const what = `more than ${most} bytes came, and the server does not say how many there are`;
  throw new WispError('io', `${name}: ${what}`);
}
