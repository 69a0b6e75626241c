// SPDX-License-Identifier: Apache-2.0
// Memory that does not grow, allocations that fail, and traps, each at the n-th time: typed errors, and
// the engine or its replacement goes on with the right bits.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Engine } from '../../js/engine/engine.js';
import { Embedder } from '../../js/node.js';
import { SEED, amount, report } from './campaign/amount.mjs';
import { sameBits } from './campaign/bits.mjs';
import { withInstances } from './campaign/instances.mjs';
import { failAtGrowth } from './campaign/module.mjs';
import { Random } from './campaign/random.mjs';
import { settled } from './campaign/settled.mjs';
import { DEFAULT_MODEL_PATH, ROOT, smallCalibratedModel, smallModel } from './support.mjs';

/** Each takes more memory than those before. Long words are quick: each is one token. */
const CALLS = [
  ['one', 'two words'],
  ['words '.repeat(500)],
  Array.from({ length: 256 }, (_, i) => `${i} ${'w'.repeat(600)} ${'words '.repeat(i % 9)}`),
  ['w'.repeat(1_200_000)],
];

/** @param {string} path */
const readAll = (path) => new Uint8Array(readFileSync(path));

/** @typedef {{ name: string, bytes: Uint8Array, rows: Float32Array[], growths: number,
 *   allocations: number }} Subject a model, its rows of CALLS, and what they take */

describe('memory and traps', () => {
  const bytes = readAll(`${ROOT}js/wisp-simd128.wasm`);
  const module = new WebAssembly.Module(bytes);
  /** @type {Subject[]} */
  const subjects = [];
  /** @type {Record<string, number>} */
  const counts = {};
  const count = (/** @type {string} */ what) => (counts[what] = (counts[what] ?? 0) + 1);

  before(async () => {
    const models = [
      ['small', smallModel()],
      ['calibrated', smallCalibratedModel()],
      ['default', DEFAULT_MODEL_PATH],
    ];
    for (const [name, path] of models.slice(0, amount('models', { sample: 2, all: 3 }))) {
      /** @type {Subject} */
      const subject = { name, bytes: readAll(path), rows: [], growths: 0, allocations: 0 };
      subjects.push(subject);
      const countGrowths = (/** @type {any} */ imports) => ({
        ...imports,
        env: { emscripten_notify_memory_growth: () => subject.growths++ },
      });
      const countAllocations = (/** @type {any} */ exports) => ({
        ...exports,
        allocate: (/** @type {number} */ size) => {
          subject.allocations++;
          return exports.allocate(size);
        },
      });
      await withInstances({ imports: countGrowths, exports: countAllocations }, async () => {
        const engine = await Engine.open(module, subject.bytes);
        for (const texts of CALLS) subject.rows.push(engine.embed(texts));
        engine.close();
      });
    }
  });
  after(() => report('failed growths, failed allocations and traps', counts));

  /**
   * Makes all calls, and the first once more: each gives its rows or an error of the code. If the
   * first gave its rows, so does the last, whatever came between.
   * @param {Subject} subject
   * @param {(texts: string[]) => Float32Array | Promise<Float32Array>} embed
   * @param {string} code
   * @param {string} where
   * @returns {Promise<boolean[]>} which calls gave rows
   */
  async function makeCalls(subject, embed, code, where) {
    const right = [];
    for (const i of [...CALLS.keys(), 0]) {
      try {
        sameBits(await embed(CALLS[i]), subject.rows[i], `call ${i}`);
        count(`calls right ${where}`);
        right.push(true);
      } catch (error) {
        assertCode(error, code);
        count(`calls failed as ${code} ${where}`);
        right.push(false);
      }
    }
    return right;
  }

  /**
   * @param {Subject} subject
   * @param {WebAssembly.Module} from
   * @param {string} code
   */
  async function runEngine(subject, from, code) {
    /** @type {Engine} */
    let engine;
    try {
      engine = await Engine.open(from, subject.bytes);
    } catch (error) {
      assertCode(error, code);
      return count(`openings failed as ${code}`);
    }
    const right = await makeCalls(subject, (texts) => engine.embed(texts), code, 'in an engine');
    engine.close();
    const last = right.pop();
    if (code === 'trap') assert.equal(last, right.every(Boolean), 'after a trap nothing works');
    else assert.ok(last || !right[0], 'the first call fails when it is made again');
  }

  /** @param {any} error @param {string} code */
  function assertCode(error, code) {
    if (error.name !== 'WispError' || error.code !== code) throw error;
  }

  /**
   * Chooses growths to fail: all in the campaign, else some.
   * @param {string} fault
   * @param {Subject} subject
   */
  function someOf(fault, { name, growths }) {
    const random = new Random(SEED + growths);
    const all = Array.from({ length: growths }, (_, i) => i + 1);
    const some = name === 'default' ? 12 : growths;
    const numbers = { sample: some, all: some, campaign: growths };
    const most = Math.min(growths, amount(`${name} model, growths that fail ${fault}`, numbers));
    while (all.length > most) all.splice(random.below(all.length), 1);
    return all;
  }

  for (const fault of /** @type {const} */ (['once', 'always', 'trap'])) {
    const code = fault === 'trap' ? 'trap' : 'memory';
    const what = fault === 'trap' ? 'a trap at' : `memory that does not grow, ${fault} from`;

    test(`an engine with ${what} growth n`, async () => {
      for (const subject of subjects) {
        for (const n of someOf(fault, subject)) {
          const from = new WebAssembly.Module(failAtGrowth(bytes, fault, n));
          await runEngine(subject, from, code);
        }
      }
    });

    test(`workers with ${what} growth n`, async () => {
      for (const subject of subjects.slice(0, 2)) {
        for (const n of someOf(fault, subject)) {
          const wasm = new WebAssembly.Module(failAtGrowth(bytes, fault, n));
          await runPool(subject, wasm, code);
        }
      }
      const wasm = new WebAssembly.Module(failAtGrowth(bytes, fault, 10));
      await assert.rejects(Embedder.load(DEFAULT_MODEL_PATH, { workers: 2, wasm }), { code });
    });
  }

  /**
   * Runs the calls with a pool, which replaces workers that trap.
   * @param {Subject} subject
   * @param {WebAssembly.Module} wasm
   * @param {string} code
   */
  async function runPool(subject, wasm, code) {
    const embedder = await Embedder.load(subject.bytes, { workers: 1, wasm });
    const embed = (/** @type {string[]} */ texts) => settled(embedder.embed(texts));
    try {
      const right = await makeCalls(subject, embed, code, 'in a worker');
      assert.ok(right[CALLS.length] || !right[0], 'the first call fails when it is made again');
      const failed = right.filter((well) => !well).length;
      const { lostWorkers } = embedder.stats();
      assert.ok(code === 'trap' ? lostWorkers >= failed : lostWorkers === 0, `${lostWorkers} lost`);
    } finally {
      await settled(embedder.close());
    }
  }

  test('an engine in which allocation n of JavaScript fails', async () => {
    for (const subject of subjects.slice(0, 2)) {
      for (let n = 1; n <= subject.allocations; n++) {
        let calls = 0;
        const failNth = (/** @type {any} */ exports) => ({
          ...exports,
          allocate: (/** @type {number} */ size) => (++calls === n ? 0 : exports.allocate(size)),
        });
        await withInstances({ exports: failNth }, async () => {
          const failed = { once: false };
          try {
            const engine = await Engine.open(module, subject.bytes);
            for (const [i, texts] of CALLS.entries()) {
              const embed = () => sameBits(engine.embed(texts), subject.rows[i]);
              try {
                embed();
              } catch (error) {
                assertCode(error, 'memory');
                failed.once = true;
                embed();
              }
            }
            engine.close();
          } catch (error) {
            assertCode(error, 'memory');
            failed.once = true;
          }
          assert.ok(failed.once, `allocation ${n} failed and nobody noticed`);
          count('allocations of JavaScript failed');
        });
      }
    }
  });
});
