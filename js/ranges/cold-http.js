// SPDX-License-Identifier: Apache-2.0
// Ranges of a file on a server. Whatever a server sends in their place is either of use or an error.
import { WispError, cancelled, onAbort } from '../base/errors.js';
import { limits, Silence } from '../files/silence.js';
import { readerOf } from '../files/source.js';
import { HubError, ask, isOutage, readAll } from '../hub/hub.js';

/** @typedef {import('./cold-ranges.js').Range} Range */
/** @typedef {import('./cold-ranges.js').Bytes} Bytes */

/** A server that has not said for so long whether its file is the same counts as out of reach. */
export const CHECK_MS = 5_000;

/** The status of an error by which an answer of another range is refused. */
const OTHER_RANGE = 206;

/** @param {Range} range @returns {Record<string, string>} */
const rangeOf = ([start, end]) => ({
  Range: `bytes=${start}-${end - 1}`,
  'Accept-Encoding': 'identity',
});

/** @param {Response} response */
const stateOf = ({ headers }) => headers.get('etag') ?? headers.get('last-modified');

/** Whether a body ends after so many bytes, or by its own encoding. @param {Response} response @param {number} bytes */
const endsAt = ({ headers }, bytes) => Number(headers.get('content-length') ?? bytes) === bytes;

/** A file on a server, a RangeFile. */
export class HttpFile {
  /** Bytes of the file, once the server has said so. */
  size = 0;
  /** Whether the server has sent the whole file instead of a range. */
  isWhole = false;
  requests = 0;
  received = 0;
  name;
  #stall;
  /** The state of the file, as its server names it; null: it does not. @type {string | null | undefined} */
  state;

  /**
   * @param {string} url
   * @param {number} [stall] milliseconds
   */
  constructor(url, stall = limits.silence) {
    this.name = url;
    this.#stall = stall;
  }

  /**
   * Asks whether the file is as it was: undefined if the server cannot be reached, or is out of order.
   * @param {string} state that it had
   * @param {number} size
   * @param {AbortSignal} signal
   */
  async isStill(state, size, signal) {
    const stop = new AbortController();
    const forget = onAbort(signal, () => stop.abort(signal.reason));
    const timer = setTimeout(() => stop.abort(), CHECK_MS);
    // A server of another origin would be asked for permission first.
    const isOwn = !globalThis.location || new URL(this.name).origin === location.origin;
    // With If-Modified-Since an older file in its place would count as the same.
    const isTag = /^(W\/)?"/.test(state);
    const headers = { ...rangeOf([0, 1]), ...(isOwn && isTag && { 'If-None-Match': state }) };
    this.requests++;
    try {
      const response = await ask(
        this.name,
        { cache: 'no-store', headers },
        { signal: stop.signal },
      );
      if (response.status === 304) return true;
      const [, whole = size] = /\/(\d+)$/.exec(response.headers.get('content-range') ?? '') ?? [];
      return stateOf(response) === state && Number(whole) === size;
    } catch (error) {
      if (signal.aborted) throw cancelled(signal);
      if (stop.signal.aborted || isOutage(error)) return undefined;
      if (error instanceof HubError && error.status === 416) return false;
      throw error;
    } finally {
      clearTimeout(timer);
      forget();
      stop.abort(); // frees the body
    }
  }

  /**
   * Fetches a range, in as many requests as it takes.
   * @param {Range} range that ends if the file does, if it is longer
   * @param {Bytes} bytes
   * @param {AbortSignal} signal
   */
  async read([start, end], bytes, signal) {
    let at = start;
    const last = () => (this.size === 0 ? end : Math.min(end, this.size));
    await readAll(
      {
        url: `${this.name}, bytes ${start} to ${end - 1}`,
        size: end - start,
        // A file that ends within the range has no more.
        at: () => (at < last() ? at : end) - start,
        read: () => this.#request([at, last()], bytes, signal, (to) => void (at = to)),
        least: this.#stall * limits.slowest,
        isBroken: (error) =>
          error instanceof HubError ? error.status === 0 : !(error instanceof WispError),
      },
      { signal },
    );
  }

  /**
   * Makes one request, and writes its bytes. A time limit begins again when enough of the body has arrived, and after
   * pauses that the server asks for.
   * @param {Range} range
   * @param {Bytes} bytes
   * @param {AbortSignal} signal
   * @param {(at: number) => void} reach reports how far the bytes have arrived
   */
  async #request(range, bytes, signal, reach) {
    const stop = new AbortController();
    const forget = onAbort(signal, () => stop.abort(signal.reason));
    const silence = new Silence(() => stop.abort(), this.#stall);
    try {
      const onPause = (/** @type {number} */ pause) => silence.restart(pause);
      const asking = { signal: stop.signal, onPause };
      const { response, place: [from, to] } = await this.#ask(range, asking); // prettier-ignore
      const body = response.body ? readerOf(response.body) : undefined;
      let place = from;
      for (;;) {
        const { done, value } = (await body?.read()) ?? { done: true, value: undefined };
        if (done || !value) break;
        silence.add(value.length);
        this.received += value.length;
        if (place + value.length > to) {
          throw this.#error(`more bytes came than the ${to - from} that the server named`);
        }
        bytes.write(place, value);
        place += value.length;
        if (from === range[0]) reach(Math.min(place, range[1]));
        // The end of a body that is said to be longer than its range is not waited for.
        if (response.status === 206 && place === to && !endsAt(response, to - from)) break;
      }
      if (response.status === 206) return; // what is missing is asked for again
      if (this.size === 0) this.size = place;
      if (place !== this.size) throw new TypeError('the transfer broke off');
      this.isWhole = true;
      bytes.mark([0, place]);
      reach(range[1]);
    } catch (error) {
      if (signal.aborted) throw cancelled(signal);
      if (!silence.isOver) throw error;
      const text = `${this.name}: ${silence.shown(range[1] - range[0])}`;
      throw new HubError('io', text, 0, error);
    } finally {
      silence.end();
      forget();
      stop.abort(); // frees a body that is not read
    }
  }

  /**
   * Asks for a range: once more if another one comes, as caches on the way have sent, or if the file was given
   * before and is refused now, since the URL may lead to an address whose signature has just expired.
   * @param {Range} range
   * @param {import('../hub/hub.js').Asking} asking
   * @param {boolean} [again] whether it may ask once more
   * @returns {Promise<{ response: Response, place: Range }>}
   */
  async #ask(range, asking, again = true) {
    this.requests++;
    try {
      const headers = rangeOf(range);
      const response = await ask(this.name, { cache: 'no-store', headers }, asking);
      return { response, place: this.#place(response, range) };
    } catch (error) {
      const { status } = /** @type {{ status?: number }} */ (error);
      const isRefused = this.size > 0 && (status === 401 || status === 403);
      if (again && (isRefused || status === OTHER_RANGE)) return this.#ask(range, asking, false);
      if (status !== 416) throw error;
      throw this.#changed(`the server has no bytes ${range[0]} to ${range[1] - 1}`);
    }
  }

  /**
   * Checks an answer, and returns the place of its bytes in the file.
   * @param {Response} response
   * @param {Range} range that was asked for
   * @returns {Range}
   */
  #place(response, [start, end]) {
    const { status, headers, type } = response;
    const state = stateOf(response);
    if (this.state === undefined) this.state = state;
    if (state !== this.state) {
      throw this.#changed(`it was ${this.state}, and is ${state}`);
    }
    const coding = headers.get('content-encoding');
    const isCoded = coding !== null && coding !== 'identity';
    if (status !== 206) {
      if (status !== 200) throw this.#error(`the server answers ${status} to a range`);
      const length = isCoded ? 0 : Number(headers.get('content-length'));
      if (length && this.size && length !== this.size) {
        throw this.#changed(`it had ${this.size} bytes, and has ${length}`);
      }
      if (length) this.size = length;
      return [0, this.size || Infinity];
    }
    if (isCoded)
      throw this.#error(`the server compresses ranges (${coding}), which cannot be used`);
    const text = headers.get('content-range');
    if (text === null && type === 'cors') {
      throw this.#error(
        'the answer has no Content-Range that can be read: from another origin the server must send ' +
          'Access-Control-Expose-Headers: Content-Range, ETag',
      );
    }
    const found = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(text ?? '') ?? [];
    const [from, last, size] = found.slice(1).map(Number);
    const isPart = from === start && last >= from && last < end && last < size;
    if (!isPart || !Number.isSafeInteger(size)) {
      void response.body?.cancel().catch(() => {});
      const came = `bytes ${start} to ${end - 1} were asked for, but '${text}' came`;
      throw new HubError('io', `${this.name}: ${came}`, OTHER_RANGE);
    }
    if (this.size && size !== this.size) {
      throw this.#changed(`it had ${this.size} bytes, and has ${size}`);
    }
    this.size = size;
    return [from, last + 1];
  }

  /** @param {string} text */
  #error(text) {
    return new WispError('io', `${this.name}: ${text}`);
  }

  /** @param {string} text */
  #changed(text) {
    return this.#error(`the file has changed since it was opened; load it again (${text})`);
  }
}
