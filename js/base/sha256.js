// SPDX-License-Identifier: Apache-2.0
// SHA-256 of bytes that come part by part. The browser's own function wants all bytes at once, in memory
// that is not shared, and a secure context.

/** @param {number} n */
const fraction = (n) => ((n - Math.floor(n)) * 2 ** 32) | 0;

/** The first primes: the constants are the fractions of their square and cube roots. */
const PRIMES = [2];
for (let n = 3; PRIMES.length < 64; n += 2) if (PRIMES.every((p) => n % p)) PRIMES.push(n);
const START = PRIMES.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
const ROUNDS = Int32Array.from(PRIMES, (p) => fraction(Math.cbrt(p)));

/** Returns a hash that grows by `add`; `end` returns it in the form of Subresource Integrity. */
export function hasher() {
  const state = Int32Array.from(START);
  const words = new Int32Array(64);
  const block = new Uint8Array(64);
  const view = new DataView(block.buffer);
  let filled = 0;
  let total = 0;

  function mix() {
    for (let i = 0; i < 16; i++) words[i] = view.getInt32(4 * i);
    for (let i = 16; i < 64; i++) {
      const x = words[i - 15];
      const y = words[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      words[i] = words[i - 16] + s0 + words[i - 7] + s1;
    }
    let a = state[0];
    let b = state[1];
    let c = state[2];
    let d = state[3];
    let e = state[4];
    let f = state[5];
    let g = state[6];
    let h = state[7];
    for (let i = 0; i < 64; i++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) | 0;
      const u = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t) | 0;
      d = c;
      c = b;
      b = a;
      a = (t + u) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  }

  /** @param {Uint8Array} bytes */
  function add(bytes) {
    total += bytes.length;
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + 64 - filled);
      block.set(part, filled);
      at += part.length;
      filled += part.length;
      if (filled === 64) {
        mix();
        filled = 0;
      }
    }
  }

  return {
    add,
    end() {
      const bits = total * 8;
      add(Uint8Array.of(0x80, ...new Uint8Array((119 - (total % 64)) % 64)));
      view.setUint32(56, bits / 2 ** 32);
      view.setUint32(60, bits);
      mix();
      state.forEach((value, i) => view.setInt32(4 * i, value));
      return `sha256-${btoa(String.fromCharCode(...block.subarray(0, 32)))}`;
    },
  };
}
