// SPDX-License-Identifier: Apache-2.0
// The bytes of a file that have been fetched, and the requests for others. Each byte is fetched once, however many
// workers ask for it.
import { cancelled, onAbort } from './errors.js';

/** @typedef {[start: number, end: number]} Range bytes start to end - 1 */

/** Requests at a time: as many as a browser has connections to a server of HTTP/1.1. */
const MOST_FLIGHTS = 6;

/** Ranges are not joined beyond this length, so that several come at a time. */
const MOST_BYTES = 1024 * 1024;

/** Bytes are kept in pages, of which those without any take no memory. */
const PAGE_BYTES = 64 * 1024;

/**
 * Returns what is left of ranges without a hole.
 * @param {Range[]} ranges
 * @param {Range} hole
 * @returns {Range[]}
 */
const without = (ranges, [from, to]) =>
  ranges.flatMap(([start, end]) =>
    to <= start || end <= from
      ? [/** @type {Range} */ ([start, end])]
      : /** @type {Range[]} */ ([
          [start, from],
          [to, end],
        ]).filter(([a, b]) => a < b),
  );

/** @param {Range} a @param {Range} b */
const overlap = (a, b) => a[0] < b[1] && b[0] < a[1];

/** Bytes of a file, of which some are there. */
export class Bytes {
  /** @type {Map<number, Uint8Array>} */
  #pages = new Map();
  /** @type {Range[]} in rising order, with gaps between */
  #present = [];
  /** Is called when bytes have been written. */
  onWrite = () => {};

  /**
   * Writes bytes, which are not present before they are marked so.
   * @param {number} at
   * @param {Uint8Array} bytes
   */
  write(at, bytes) {
    this.#eachPage(at, at + bytes.length, (page, from, to, done) =>
      page.set(bytes.subarray(done, done + to - from), from),
    );
    this.onWrite();
  }

  /** @param {Range} range whose bytes have been written */
  mark([start, end]) {
    const apart = this.#present.filter(([from, to]) => to < start || end < from);
    const joined = this.#present.filter(([from, to]) => to >= start && end >= from).flat();
    apart.push([Math.min(start, ...joined), Math.max(end, ...joined)]);
    this.#present = apart.sort((a, b) => a[0] - b[0]);
  }

  /** @param {Range[]} ranges whose bytes are of no use */
  unmark(ranges) {
    this.#present = ranges.reduce(without, this.#present);
  }

  /**
   * @param {Range} range
   * @returns {Range[]} its parts that are not present
   */
  missing(range) {
    return this.#present.filter((part) => overlap(part, range)).reduce(without, [range]);
  }

  /**
   * @param {Range} range
   * @returns {Uint8Array<ArrayBuffer>} a copy
   */
  read([start, end]) {
    const bytes = new Uint8Array(end - start);
    this.#eachPage(start, end, (page, from, to, done) => bytes.set(page.subarray(from, to), done));
    return bytes;
  }

  /**
   * Lets go of bytes that nobody reads again, though they remain present.
   * @param {number} end the first that stays
   */
  forget(end) {
    for (const number of this.#pages.keys()) {
      if ((number + 1) * PAGE_BYTES <= end) this.#pages.delete(number);
    }
  }

  /**
   * @param {number} start
   * @param {number} end
   * @param {(page: Uint8Array, from: number, to: number, done: number) => void} body
   */
  #eachPage(start, end, body) {
    for (let at = start; at < end;) {
      const number = Math.floor(at / PAGE_BYTES);
      const from = at - number * PAGE_BYTES;
      const to = Math.min(PAGE_BYTES, from + end - at);
      let page = this.#pages.get(number);
      if (!page) this.#pages.set(number, (page = new Uint8Array(PAGE_BYTES)));
      body(page, from, to, at - start);
      at += to - from;
    }
  }
}

/**
 * A caller that waits for ranges.
 * @typedef {object} Need
 * @property {Range[]} ranges
 * @property {(value?: undefined) => void} resolve
 * @property {(error: unknown) => void} reject
 */

/** The requests for ranges of one file. */
export class Ranges {
  bytes = new Bytes();
  #file;
  #gap;
  /** @type {Set<Need>} */
  #needs = new Set();
  /** @type {Set<{ range: Range, stop: AbortController }>} requests under way */
  #flights = new Set();

  /**
   * @param {import('../types/internal.js').RangeFile} file
   * @param {number} gap ranges with at most so many bytes between are fetched as one
   */
  constructor(file, gap) {
    this.#file = file;
    this.#gap = gap;
  }

  /**
   * Resolves when all bytes of the ranges are present.
   * @param {Range[]} ranges
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  need(ranges, signal) {
    if (signal.aborted) return Promise.reject(cancelled(signal));
    return new Promise((resolve, reject) => {
      const need = { ranges, resolve, reject };
      this.#needs.add(need);
      const forget = onAbort(signal, () => this.#drop([need], cancelled(signal)));
      need.resolve = () => (forget(), resolve());
      need.reject = (error) => (forget(), reject(error));
      this.#go();
    });
  }

  /** Ends what is wanted no more, answers what is there, and requests what is missing. */
  #go() {
    for (const need of this.#needs) {
      if (need.ranges.some((range) => this.bytes.missing(range).length > 0)) continue;
      this.#needs.delete(need);
      need.resolve();
    }
    const wanted = [...this.#needs].flatMap(({ ranges }) => ranges);
    for (const { range, stop } of this.#flights) {
      if (!wanted.some((each) => overlap(each, range))) stop.abort();
    }
    while (this.#flights.size < MOST_FLIGHTS) {
      const range = this.#next(wanted);
      if (!range) return;
      void this.#fetch(range);
    }
  }

  /**
   * Returns the next range to request: the first that is missing, joined with those that follow.
   * @param {Range[]} wanted
   * @returns {Range | undefined}
   */
  #next(wanted) {
    const flying = [...this.#flights].map(({ range }) => range);
    const missing = wanted
      .flatMap((range) => flying.reduce(without, this.bytes.missing(range)))
      .sort((a, b) => a[0] - b[0]);
    const [first, ...rest] = missing;
    if (!first) return undefined;
    const joined = /** @type {Range} */ ([...first]);
    for (const [start, end] of rest) {
      if (start > joined[1] + this.#gap || end > joined[0] + MOST_BYTES) break;
      const between = /** @type {Range} */ ([joined[1], start]);
      const unknown = this.bytes.missing(between).reduce((sum, [a, b]) => sum + b - a, 0);
      if (unknown < start - joined[1] || flying.some((each) => overlap(each, between))) break;
      joined[1] = Math.max(joined[1], end);
    }
    return joined;
  }

  /** @param {Range} range */
  async #fetch(range) {
    const stop = new AbortController();
    const flight = { range, stop };
    this.#flights.add(flight);
    try {
      await this.#file.read(range, this.bytes, stop.signal);
      this.#flights.delete(flight);
      this.bytes.mark(range);
    } catch (error) {
      this.#flights.delete(flight);
      // Where nobody wants it any more, others may since have begun to.
      if (!stop.signal.aborted) {
        const those = [...this.#needs].filter((need) =>
          need.ranges.some((each) => overlap(each, range)),
        );
        return this.#drop(those, error);
      }
    }
    this.#go();
  }

  /**
   * @param {Need[]} needs
   * @param {unknown} error
   */
  #drop(needs, error) {
    for (const need of needs) if (this.#needs.delete(need)) need.reject(error);
    this.#go();
  }

  /** Ends all requests. */
  close() {
    for (const { stop } of this.#flights) stop.abort();
  }
}
