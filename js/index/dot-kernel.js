// SPDX-License-Identifier: Apache-2.0
// A WebAssembly module with one function: the dot products of a vector with rows, and of each row with
// itself. On rows in JavaScript's memory it is three times as fast as a loop of JavaScript, though they
// are copied to it block by block. The modules that hold engines have kernels for matrices that they
// pack themselves.
import { takeMemory } from '../base/errors.js';

/** Floats that the function takes at once; rows are padded with zeros to a multiple of it. */
const STEP = 16;

/** Floats that are copied at once: half of a small second-level cache. */
const BLOCK = 1 << 15;

/** @typedef {number | Code[]} Code bytes, in any nesting */

/** @param {Code[]} code @returns {number[]} */
const flat = (...code) => /** @type {any[]} */ (code).flat(Infinity);

/** @param {Code[]} code @returns {number[]} their number, of at most two bytes, and they */
function sized(...code) {
  const bytes = flat(...code);
  return [(bytes.length & 127) | 128, bytes.length >> 7, ...bytes];
}

const I32 = 0x7f;
const V128 = 0x7b;
const END = 0x0b;
const I32_ADD = 0x6a;
const F32_ADD = 0x92;
const ADD = [0xfd, 0xe4, 0x01]; // f32x4.add
const MUL = [0xfd, 0xe6, 0x01]; // f32x4.mul
const ZEROS = [0x41, 0, 0xfd, 0x11]; // i32.const 0, i32x4.splat
const get = (/** @type {number} */ local) => [0x20, local];
const set = (/** @type {number} */ local) => [0x21, local];
const tee = (/** @type {number} */ local) => [0x22, local];
const load = (/** @type {number} */ offset) => [0xfd, 0x00, 2, offset]; // v128.load of aligned floats
const store = (/** @type {number} */ offset) => [0x38, 2, offset]; // f32.store
const lane = (/** @type {number} */ i) => [0xfd, 0x1f, i]; // f32x4.extract_lane
const add = (/** @type {number} */ local, /** @type {Code} */ constant) => [
  [get(local), 0x41, constant, I32_ADD],
  set(local),
];
const loop = (/** @type {Code[]} */ ...body) => [0x03, 0x40, ...body, END];
const againBelow = (/** @type {number} */ local, /** @type {number} */ end) => [
  [get(local), get(end), 0x49], // i32.lt_u
  [0x0d, 0], // br_if to the loop's start
];

// The parameters: addresses of the rows, their end, the vector and the results; bytes of a row.
const [ROW, ROWS_END, VECTOR, RESULT, ROW_BYTES] = [0, 1, 2, 3, 4];
const [AT, ROW_END, VALUES] = [5, 6, 7]; // in the vector; of this row; four values of it
const DOTS = [8, 9, 10, 11];
const SQUARES = [12, 13, 14, 15];

/** @param {number[]} sums the locals whose lanes are added up */
const total = ([a, b, c, d]) => [
  [get(a), get(b), ADD, get(c), get(d), ADD, ADD, tee(VALUES), lane(0)],
  [get(VALUES), lane(1), F32_ADD],
  [get(VALUES), lane(2), get(VALUES), lane(3), F32_ADD, F32_ADD],
];

const body = [
  loop(
    [get(VECTOR), set(AT)],
    [get(ROW), get(ROW_BYTES), I32_ADD, set(ROW_END)],
    [ZEROS, ...[...DOTS, ...SQUARES].map(tee), set(VALUES)],
    loop(
      ...[0, 1, 2, 3].map((i) => [
        [get(ROW), load(16 * i), tee(VALUES), get(AT), load(16 * i), MUL],
        [get(DOTS[i]), ADD, set(DOTS[i])],
        [get(VALUES), get(VALUES), MUL, get(SQUARES[i]), ADD, set(SQUARES[i])],
      ]),
      add(ROW, [0xc0, 0]), // 64, the bytes of STEP floats
      add(AT, [0xc0, 0]),
      againBelow(ROW, ROW_END),
    ),
    [get(RESULT), total(DOTS), store(0)],
    [get(RESULT), total(SQUARES), store(4)],
    add(RESULT, 8),
    againBelow(ROW, ROWS_END),
  ),
  END,
];

const name = (/** @type {string} */ text) => [text.length, ...new TextEncoder().encode(text)];

const module = () =>
  Uint8Array.from(
    flat(
      [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00], // magic, version
      [0x01, sized(1, 0x60, 5, [I32, I32, I32, I32, I32], 0)], // a type
      [0x03, sized(1, 0)], // a function of it
      [0x05, sized(1, 0, 1)], // a memory of a page
      [0x07, sized(2, name('memory'), 2, 0, name('dots'), 0, 0)], // the exports
      [0x0a, sized(1, sized(2, 2, I32, 9, V128, ...body))], // locals and code
    ),
  );

/** @type {{ memory: WebAssembly.Memory, dots: Function } | undefined} */
let instance;

/**
 * Computes the dot products of rows with a vector, and of each row with itself. Sums are floats; they do
 * not depend on the engine.
 * @param {Float32Array} rows one after the other
 * @param {Float32Array} vector of the rows' size
 * @param {(i: number, dot: number, squares: number) => void} result
 */
export function dotProducts(rows, vector, result) {
  const size = vector.length;
  const stride = Math.ceil(size / STEP) * STEP;
  const most = Math.max(1, Math.floor(BLOCK / stride));
  const floats = stride + most * (stride + 2);
  instance ??= /** @type {any} */ (
    new WebAssembly.Instance(new WebAssembly.Module(module())).exports
  );
  const { memory, dots } = /** @type {NonNullable<typeof instance>} */ (instance);
  const missing = 4 * floats - memory.buffer.byteLength;
  if (missing > 0) {
    takeMemory(`rows of ${size} values`, () => memory.grow(Math.ceil(missing / 65536)));
  }
  const all = new Float32Array(memory.buffer, 0, floats).fill(0);
  all.set(vector);
  const block = all.subarray(stride, stride + most * stride);
  const results = all.subarray(stride + most * stride);
  const count = rows.length / size;
  for (let first = 0; first < count; first += most) {
    const n = Math.min(most, count - first);
    if (size === stride) {
      block.set(rows.subarray(first * size, (first + n) * size));
    } else {
      for (let i = 0; i < n; i++) {
        block.set(rows.subarray((first + i) * size, (first + i + 1) * size), i * stride);
      }
    }
    const begin = 4 * stride;
    dots(begin, begin + 4 * n * stride, 0, results.byteOffset, 4 * stride);
    for (let i = 0; i < n; i++) result(first + i, results[2 * i], results[2 * i + 1]);
  }
}
