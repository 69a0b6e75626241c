// SPDX-License-Identifier: Apache-2.0
// A slow line to a server on this machine: a TCP proxy whose connections share a rate in each direction, and whose bytes
// arrive after half a round trip. It stands in for `tc netem`, which needs root and a module of the kernel.
import { connect, createServer } from 'node:net';

/** Bytes that pass in one turn of a connection: about two packets. */
const SLICE_BYTES = 2920;

/** A server is paused when so many of its bytes wait for the line. */
const MOST_QUEUED_BYTES = 256 * 1024;

const now = () => performance.timeOrigin + performance.now();

/** One direction of the line. Connections with bytes to send take turns. */
class Line {
  /** Bytes that have left it: [time, all bytes so far], by the clock that pages have too. @type {[number, number][]} */
  log = [];
  #bytesPerMs;
  #delayMs;
  /** @type {Queue[]} with bytes, the next one first */
  #turns = [];
  /** The time at which the last bytes have left. */
  #free = 0;
  /** @type {{ at: number, deliver: () => void }[]} */
  #onTheWay = [];
  #total = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /** @param {number} bytesPerMs @param {number} delayMs */
  constructor(bytesPerMs, delayMs) {
    this.#bytesPerMs = bytesPerMs;
    this.#delayMs = delayMs;
  }

  /** @param {Queue} queue that has bytes now */
  add(queue) {
    if (this.#turns.length === 0) this.#free = Math.max(this.#free, now());
    this.#turns.push(queue);
    this.#run();
  }

  /** The bytes that had arrived at a time. @param {number} time */
  bytesAt(time) {
    return this.log.findLast(([at]) => at <= time)?.[1] ?? 0;
  }

  /**
   * Says when nothing arrived: seconds in all, and the gaps of 30 ms or more as [seconds after `from`, seconds].
   * @param {number} from
   * @param {number} to
   */
  idle(from, to) {
    let last = from;
    let seconds = 0;
    /** @type {[number, number][]} */
    const gaps = [];
    const times = this.log.map(([at]) => at).filter((at) => at >= from && at <= to);
    for (const at of [...times, to]) {
      const busy = SLICE_BYTES / this.#bytesPerMs;
      const gap = Math.max(0, at - last - busy) / 1000;
      seconds += gap;
      if (gap >= 0.03) gaps.push([Math.round(last - from) / 1000, Math.round(1000 * gap) / 1000]);
      last = at;
    }
    return { seconds, gaps };
  }

  #run() {
    clearTimeout(this.#timer);
    for (;;) {
      const time = now();
      while (this.#onTheWay.length > 0 && this.#onTheWay[0].at <= time)
        this.#onTheWay.shift()?.deliver();
      const queue = this.#turns[0];
      if (!queue || this.#free > time) break;
      this.#turns.shift();
      const slice = queue.take();
      this.#free += slice.length / this.#bytesPerMs;
      const at = this.#free + this.#delayMs;
      this.#onTheWay.push({
        at,
        deliver: () => {
          this.#total += slice.length;
          this.log.push([at, this.#total]);
          queue.send(slice);
        },
      });
      if (queue.size > 0) this.#turns.push(queue);
    }
    const next = Math.min(
      this.#onTheWay[0]?.at ?? Infinity,
      this.#turns.length > 0 ? this.#free : Infinity,
    );
    if (next < Infinity) this.#timer = setTimeout(() => this.#run(), Math.max(0, next - now()));
  }
}

/** Bytes that one side of a connection has sent and the line has not taken yet. */
class Queue {
  size = 0;
  #from;
  #to;
  /** @type {Buffer[]} */
  #parts = [];
  #onTheWay = 0;
  #isEnded = false;

  /**
   * @param {Line} line
   * @param {import('node:net').Socket} from
   * @param {import('node:net').Socket} to
   * @param {number} wait milliseconds before the first byte
   */
  constructor(line, from, to, wait) {
    this.#from = from;
    this.#to = to;
    const begin = now() + wait;
    from.on('data', (part) => {
      const left = begin - now();
      this.#parts.push(part);
      this.size += part.length;
      if (this.size > MOST_QUEUED_BYTES) from.pause();
      if (this.size > part.length) return; // it has turns already
      if (left > 0) setTimeout(() => line.add(this), left);
      else line.add(this);
    });
    from.on('end', () => {
      this.#isEnded = true;
      this.#endIfSent();
    });
    from.on('close', () => this.size + this.#onTheWay === 0 && to.destroy());
    from.on('error', () => to.destroy());
  }

  take() {
    const [part] = this.#parts;
    const slice = part.subarray(0, SLICE_BYTES);
    if (slice.length === part.length) this.#parts.shift();
    else this.#parts[0] = part.subarray(SLICE_BYTES);
    this.size -= slice.length;
    this.#onTheWay += slice.length;
    if (this.size < MOST_QUEUED_BYTES / 2) this.#from.resume();
    return slice;
  }

  /** @param {Buffer} slice */
  send(slice) {
    this.#onTheWay -= slice.length;
    if (!this.#to.destroyed) this.#to.write(slice);
    this.#endIfSent();
  }

  #endIfSent() {
    if (this.#isEnded && this.size + this.#onTheWay === 0) this.#to.end();
  }
}

/**
 * Starts a proxy on a free port.
 * @param {number} port of the server
 * @param {{ megabits: number, roundTripMs: number }} how
 * @returns {Promise<{ origin: string, down: Line, close: () => void }>}
 */
export async function throttle(port, { megabits, roundTripMs }) {
  const bytesPerMs = (megabits * 1e6) / 8 / 1000;
  const up = new Line(bytesPerMs, roundTripMs / 2);
  const down = new Line(bytesPerMs, roundTripMs / 2);
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    client.setNoDelay();
    upstream.setNoDelay();
    // Opening a connection takes a round trip.
    new Queue(up, client, upstream, roundTripMs);
    new Queue(down, upstream, client, 0);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', () => done(undefined)));
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${address.port}`,
    down,
    close: () => void server.close(),
  };
}
