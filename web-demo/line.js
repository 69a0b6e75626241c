// SPDX-License-Identifier: Apache-2.0

/** Bytes go over the line in pieces, so that several answers share it. */
const PIECE_BYTES = 16 * 1024;

/** Waits are no shorter: browsers make shorter ones longer. */
const LEAST_WAIT_MS = 8;

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * A line of limited speed between a page and servers. Answers come through it at no more than its speed, all together,
 * whatever the browser has received.
 */
export class Line {
  /** Bits in a second, of all answers together. */
  speed = Infinity;
  /** Milliseconds before the first byte of an answer. */
  delay = 0;
  /** When the line has carried all that it was given. */
  #free = 0;
  #fetch;

  /** @param {typeof globalThis.fetch} fetch that is called for each request */
  constructor(fetch) {
    this.#fetch = fetch;
  }

  /**
   * Does what fetch does, over this line.
   * @param {Parameters<typeof globalThis.fetch>} request
   */
  async fetch(...request) {
    if (this.delay > 0) await sleep(this.delay);
    const response = await this.#fetch(...request);
    const reader = response.body?.getReader();
    if (!reader) return response;
    /** @type {Uint8Array} */
    let rest = new Uint8Array();
    const body = new ReadableStream(
      {
        pull: async (controller) => {
          if (rest.length === 0) {
            const { done, value } = await reader.read();
            if (done) return controller.close();
            rest = value;
          }
          const piece = rest.subarray(0, PIECE_BYTES);
          rest = rest.subarray(piece.length);
          await this.#carry(piece.length);
          controller.enqueue(piece);
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
    const { status, statusText, headers } = response;
    return new Response(body, { status, statusText, headers });
  }

  /** @param {number} bytes */
  async #carry(bytes) {
    const now = performance.now();
    this.#free = Math.max(this.#free, now) + (8000 * bytes) / this.speed;
    if (this.#free - now > LEAST_WAIT_MS) await sleep(this.#free - now);
  }
}
