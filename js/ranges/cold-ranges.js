// SPDX-License-Identifier: Apache-2.0
// The bytes of a file that have been fetched, and the requests for others. Each byte is fetched once, however many
// workers ask for it.
import { WispError, cancelled, onAbort } from '../base/errors.js';
import { releaseAll } from '../files/lent.js';

/** @typedef {[start: number, end: number]} Range bytes start to end - 1 */

/** Requests at a time: as many as a browser has connections to a server of HTTP/1.1. */
const MOST_FLIGHTS = 6;

/** Requests at a time for what no caller waits for yet. The others are free for callers that begin to wait. */
const MOST_AHEAD = 3;

/** Ranges are not joined beyond this length, so that several come at a time. */
const MOST_BYTES = 1024 * 1024;

/**
 * Bytes are kept in pages, of which those without any take no memory, nor do parts that were not written to: pages of this
 * size come from the system, and go back to it at once. Chromium keeps those of 64 KB for later.
 */
const PAGE_BYTES = 1024 * 1024;

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

/**
 * Returns those of some ranges that overlap one.
 * @param {Range[]} ranges in rising order, none of which overlap
 * @param {Range} range
 */
function within(ranges, [start, end]) {
  let first = firstBehind(ranges, start);
  const found = [];
  while (first < ranges.length && ranges[first][0] < end) found.push(ranges[first++]);
  return found;
}

/**
 * Returns the place of the first range that ends behind an offset.
 * @param {Range[]} ranges in rising order, none of which overlap
 * @param {number} offset
 */
function firstBehind(ranges, offset) {
  let first = 0;
  for (let to = ranges.length; first < to;) {
    const middle = (first + to) >> 1;
    if (ranges[middle][1] > offset) to = middle;
    else first = middle + 1;
  }
  return first;
}

/**
 * Joins ranges with at most `gap` bytes between, as long as the joined ones are no longer than a request is to be.
 * @param {Range[]} ranges
 * @param {number} gap
 * @returns {Range[]} in rising order, none of which overlap
 */
export function joinRanges(ranges, gap) {
  /** @type {Range[]} */
  const joined = [];
  for (const [start, end] of ranges.sort(byStart)) {
    const last = joined[joined.length - 1];
    if (last && start <= last[1] + gap && end <= last[0] + MOST_BYTES)
      last[1] = Math.max(last[1], end);
    else if (!last || end > last[1]) joined.push([Math.max(start, last?.[1] ?? 0), end]);
  }
  return joined;
}

/** @param {Range} a @param {Range} b */
const byStart = (a, b) => a[0] - b[0];

/** Returns how many bytes ranges have together. @param {Range[]} ranges */
export const lengthOf = (ranges) => ranges.reduce((sum, [start, end]) => sum + end - start, 0);

/** Some bytes of a file. */
export class RangeSet {
  /** In rising order, with gaps between. @type {Range[]} */
  all = [];

  /** @param {Range} range that belongs to it from now on */
  mark([start, end]) {
    const first = firstBehind(this.all, start - 1);
    let after = first;
    while (after < this.all.length && this.all[after][0] <= end) after++;
    const joined = this.all.slice(first, after).flat();
    this.all.splice(first, after - first, [Math.min(start, ...joined), Math.max(end, ...joined)]);
  }

  /** @param {Range[]} ranges that belong to it no longer */
  unmark(ranges) {
    this.all = ranges.reduce(without, this.all);
  }

  /**
   * @param {Range} range
   * @returns {Range[]} its parts that do not belong to it
   */
  missing(range) {
    const [start, end] = range;
    return start < end ? within(this.all, range).reduce(without, [range]) : [];
  }
}

/** Bytes of a file, of which some are present. */
export class Bytes extends RangeSet {
  /** @type {Map<number, Uint8Array>} */
  #pages = new Map();
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
    /** @type {ArrayBuffer[]} */
    const gone = [];
    for (const [number, page] of this.#pages) {
      if ((number + 1) * PAGE_BYTES > end) continue;
      gone.push(/** @type {ArrayBuffer} */ (page.buffer));
      this.#pages.delete(number);
    }
    releaseAll(gone);
  }

  /**
   * Lets go of bytes, which are present no longer.
   * @param {Range} range
   * @param {Range[]} used that are being written
   */
  drop(range, used) {
    this.unmark([range]);
    for (const number of this.#pages.keys()) {
      const page = /** @type {Range} */ ([number * PAGE_BYTES, (number + 1) * PAGE_BYTES]);
      const isEmpty = ![...this.all, ...used].some((each) => overlap(each, page));
      if (isEmpty && overlap(range, page)) this.#pages.delete(number);
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
 * @property {Range[]} ranges in rising order, none of which overlap
 * @property {boolean} isAhead whether it may wait for others
 * @property {() => void} resolve
 * @property {(error: unknown) => void} reject
 */

/**
 * A request under way.
 * @typedef {object} Flight
 * @property {Range} range
 * @property {boolean} isRest whether it goes on when no caller waits for it
 * @property {boolean} isAhead
 * @property {AbortController} stop
 */

/**
 * Returns the first part of ranges that is missing, if there is one.
 * @param {Range[]} ranges
 * @param {(range: Range) => Range[]} missing
 */
function firstOf(ranges, missing) {
  for (const range of ranges) {
    const parts = missing(range);
    if (parts.length > 0) return parts.slice(0, 1);
  }
  return [];
}

/** The requests for ranges of one file. */
export class Ranges {
  bytes = new Bytes();
  /** Chunks of the file that need not be fetched. @type {import('./cold-store.js').KeptChunks | undefined} */
  kept;
  /** Whether what is fetched is stored. */
  keeps = false;
  /** Is called when callers begin or end to wait. */
  onChange = () => {};
  /** If memory is limited: bytes from here on go when nobody waits for them. */
  limit = Infinity;
  /** Bytes that came before a text needed them, and how many of these a text has needed since. */
  restBytes = 0;
  restUsedBytes = 0;
  #unused = new RangeSet();
  /** Ranges that are about to be stored. @type {Set<Range>} */
  #keeping = new Set();
  #file;
  #gap;
  /** @type {Set<Need>} */
  #needs = new Set();
  /** @type {Set<Flight>} */
  #flights = new Set();
  /** Entries of the store that are being read. @type {Set<string>} */
  #reads = new Set();

  /**
   * @param {import('../../types/internal.js').RangeFile} file
   * @param {number} gap ranges with at most so many bytes between are fetched as one
   */
  constructor(file, gap) {
    this.#file = file;
    this.#gap = gap;
  }

  /** Whether no caller waits. */
  get isIdle() {
    return this.#needs.size === 0;
  }

  /**
   * Resolves to the bytes of the ranges when all are present.
   * @param {Range[]} ranges
   * @param {AbortSignal} signal
   * @returns {Promise<import('../../types/protocol.js').Piece[]>}
   */
  need(ranges, signal) {
    const read = () => ranges.map((each) => ({ offset: each[0], bytes: this.bytes.read(each) }));
    return this.#wait(ranges, signal, false, read);
  }

  /**
   * Fetches what is missing of ranges before a text needs them. Those that texts wait for come first.
   * @param {Range[]} ranges
   * @param {number} gap ranges with at most so many bytes between are fetched as one
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  fetchAhead(ranges, gap, signal) {
    const missing = joinRanges(ranges, gap).flatMap((range) => this.absent(range));
    return this.#wait(missing, signal, true, () => {});
  }

  /**
   * @template T
   * @param {Range[]} ranges
   * @param {AbortSignal} signal
   * @param {boolean} isAhead
   * @param {() => T} read is called when all ranges are present
   * @returns {Promise<T>}
   */
  #wait(ranges, signal, isAhead, read) {
    if (signal.aborted) return Promise.reject(cancelled(signal));
    return new Promise((resolve, reject) => {
      /** @type {Need} */
      const need = {
        ranges: joinRanges([...ranges], 0),
        isAhead,
        resolve: () => {
          forget();
          resolve(read());
        },
        reject: (error) => (forget(), reject(error)),
      };
      const forget = onAbort(signal, () => this.#drop([need], cancelled(signal)));
      this.#needs.add(need);
      this.#go();
    });
  }

  /** @param {Range[]} ranges that a text needs */
  use(ranges) {
    const others = ranges.flatMap((each) => this.#unused.missing(each));
    this.restUsedBytes += lengthOf(ranges) - lengthOf(others);
    this.#unused.unmark(ranges);
  }

  /** Ranges that are being fetched, and those that callers wait for. */
  get coming() {
    return [...this.#flying(), ...[...this.#needs].flatMap(({ ranges }) => ranges)];
  }

  /** @param {Range} range @returns {Range[]} its parts that have to be fetched */
  absent(range) {
    const { bytes, kept } = this;
    const missing = bytes.missing(range);
    return kept ? missing.flatMap((part) => kept.missing(part)) : missing;
  }

  /** Ends what is wanted no more, answers what is there, and requests what is missing. */
  #go() {
    for (const need of this.#needs) {
      const { ranges, isAhead } = need;
      const isMissing = (/** @type {Range} */ range) => this.bytes.missing(range).length > 0;
      // Early ranges come in order, and there are many of them.
      while (isAhead && ranges.length > 0 && !isMissing(ranges[0])) ranges.shift();
      if (ranges.some(isMissing)) continue;
      this.#needs.delete(need);
      need.resolve();
    }
    for (const { range, stop, isRest } of this.#flights) {
      if (!isRest && this.#waitingFor(range).length === 0) stop.abort();
    }
    if (this.kept) this.#readKept(this.kept);
    while (this.#flights.size < MOST_FLIGHTS) {
      const next = this.#next();
      if (!next) break;
      void this.#fetch(next.range, next.isAhead);
    }
    this.#letGo();
    this.onChange();
  }

  /** @param {Range} range @returns {Need[]} callers that wait for a part of it */
  #waitingFor(range) {
    return [...this.#needs].filter(({ ranges }) => within(ranges, range).length > 0);
  }

  #letGo() {
    if (this.limit === Infinity) return;
    const flying = this.#flying();
    const wanted = [...this.#needs].flatMap(({ ranges }) => ranges);
    const beyond = this.bytes.all.flatMap(([start, end]) =>
      end > this.limit ? [/** @type {Range} */ ([Math.max(start, this.limit), end])] : [],
    );
    const gone = [...wanted, ...flying, ...this.#keeping].reduce(without, beyond);
    for (const range of gone) this.bytes.drop(range, flying);
  }

  /**
   * Stores a range that is present, and stays so until then.
   * @param {Range} range
   * @param {import('./cold-store.js').KeptChunks} kept
   */
  async #keep(range, kept) {
    this.#keeping.add(range);
    const wrong = await kept.keep(range, this.bytes.read(range));
    this.#keeping.delete(range);
    this.#letGo();
    return wrong;
  }

  /** @param {import('./cold-store.js').KeptChunks} kept */
  #readKept(kept) {
    for (const run of [...this.#needs]
      .flatMap(({ ranges }) => ranges)
      .flatMap((range) => this.bytes.missing(range))
      .flatMap((range) => kept.runsOf(range))) {
      // prettier-ignore
      if (this.#reads.has(run.name)) continue;
      this.#reads.add(run.name);
      const take = (/** @type {import('./cold-store.js').Piece[]} */ pieces) => {
        for (const { offset, bytes } of pieces) {
          this.bytes.write(offset, bytes);
          this.bytes.mark([offset, offset + bytes.length]);
        }
      };
      void kept.read(run, take).then(() => {
        this.#reads.delete(run.name);
        this.#go();
      });
    }
  }

  /** Ranges that are being fetched. */
  #flying() {
    return [...this.#flights].map(({ range }) => range);
  }

  /**
   * Returns the next range to request: the first that is missing, joined with those that follow. What nobody waits for
   * yet comes last, and not all requests are for it; no gap is read along for it, for it is much, and some of it may come
   * too early.
   * @returns {{ range: Range, isAhead: boolean } | undefined}
   */
  #next() {
    const flying = this.#flying();
    const missing = (/** @type {Range} */ range) => flying.reduce(without, this.absent(range));
    const needs = [...this.#needs];
    const early = needs.filter(({ isAhead }) => isAhead).map(({ ranges }) => ranges);
    const awaited = needs
      .flatMap(({ isAhead, ranges }) => (isAhead ? [] : ranges))
      .flatMap(missing)
      .sort(byStart);
    const isAhead = awaited.length === 0;
    const flyingAhead = [...this.#flights].filter((flight) => flight.isAhead).length;
    if (isAhead && flyingAhead >= MOST_AHEAD) return undefined;
    const [first] = isAhead ? early.flatMap((ranges) => firstOf(ranges, missing)).sort(byStart) : awaited; // prettier-ignore
    if (!first) return undefined;
    const range = /** @type {Range} */ ([...first]);
    const near = /** @type {Range} */ ([range[0], range[0] + MOST_BYTES]);
    const nearEarly = new Set(early.flatMap((ranges) => within(ranges, near)));
    for (const each of [...awaited, ...nearEarly].sort(byStart)) {
      if (each[0] > range[1] + this.#gap) break;
      const isEarly = nearEarly.has(each);
      const gap = isEarly ? 0 : this.#gap;
      for (const [start, end] of isEarly ? missing(each) : [each]) {
        if (start < range[0] || end <= range[1] || start > range[1] + gap) continue;
        const between = /** @type {Range} */ ([range[1], start]);
        const isUnknown = lengthOf(this.absent(between)) === Math.max(start - range[1], 0);
        const isTooLong = end > range[0] + MOST_BYTES;
        if (isTooLong || !isUnknown || flying.some((other) => overlap(other, between)))
          return { range, isAhead };
        range[1] = end;
      }
    }
    return { range, isAhead };
  }

  /**
   * Fetches a range that no caller may wait for. If it is stored then, it does not stay in memory.
   * @param {Range} range
   */
  async fetchRest(range) {
    this.#keeping.add(range);
    const failure = await this.#fetch(range, false, true);
    if (failure || !this.keeps || !this.kept) this.#keeping.delete(range);
    if (failure) throw failure.error;
    this.restBytes += lengthOf([range]);
    this.#unused.mark(range);
    if (!this.keeps || !this.kept) return;
    const wrong = await this.#keep(range, this.kept);
    this.bytes.unmark(wrong);
    if (wrong.length > 0) {
      const [[from, to]] = wrong;
      throw new WispError(
        'format',
        `${this.#file.name}: bytes ${from} to ${to - 1} are not what the file's table says`,
        { field: 'wisp.chunks.sha256' },
      );
    }
    if (this.kept.missing(range).length === 0) this.bytes.drop(range, this.#flying());
  }

  /**
   * @param {Range} range
   * @param {boolean} isAhead
   * @param {boolean} [isRest]
   * @returns {Promise<{ error: unknown } | undefined>} why it failed
   */
  async #fetch(range, isAhead, isRest = false) {
    const stop = new AbortController();
    const flight = { range, stop, isAhead, isRest };
    this.#flights.add(flight);
    try {
      await this.#file.read(range, this.bytes, stop.signal);
      this.#flights.delete(flight);
      this.bytes.mark(range);
      if (this.keeps && this.kept && !isRest) void this.#keep(range, this.kept);
    } catch (error) {
      this.#flights.delete(flight);
      // If nobody wants it any more, others may since have begun to.
      if (!stop.signal.aborted) {
        this.#drop(this.#waitingFor(range), error);
        return { error };
      }
    }
    this.#go();
    return stop.signal.aborted ? { error: cancelled(stop.signal) } : undefined;
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
  async close() {
    for (const { stop } of this.#flights) stop.abort();
    await this.kept?.settled();
  }
}
