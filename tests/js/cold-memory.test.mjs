// SPDX-License-Identifier: Apache-2.0
// Embedder.load with the option memory: the bits of the whole model, whatever is given up meanwhile.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { Embedder } from '../../js/node.js';
import '../../js/cold-node.js';
import { shortTexts } from './pool/texts.mjs';
import { serveRanges } from './range-server.mjs';
import { smallColdModel } from './support.mjs';

const TEXTS = shortTexts(24, 3);
const path = smallColdModel('mean-shards', '0.2');
const bytes = readFileSync(path);
const folder = mkdtempSync(join(tmpdir(), 'wisp-memory-'));
process.env.WISP_CACHE = folder;

/** @type {import('./range-server.mjs').RangeServer} */
let server;
/** @type {import('../../js/calls/rows.js').Rows} */
let expected;
before(async () => {
  server = await serveRanges(bytes);
  const whole = await Embedder.load(path, { backend: 'wasm', workers: 1, predictor: 'lowrank' });
  expected = await whole.embed(TEXTS);
  await whole.close();
});
after(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

/** @type {Embedder[]} */
const opened = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((embedder) => embedder.destroy()));
  rmSync(join(folder, 'chunks'), { recursive: true, force: true });
  server.fault = undefined;
  server.forget();
});

/** @param {any} options */
async function load(
  { mode = 'wait', complete = false, store = false, ...options },
  url = server.url,
) {
  const cold = { mode, gap: 64, first: 4096, complete, store };
  const embedder = await Embedder.load(url, { workers: 1, cold, ...options });
  opened.push(embedder);
  return embedder;
}

/** @param {Embedder} embedder @returns {import('../../types/index.js').ColdTotals} */
const coldOf = (embedder) => /** @type {any} */ (embedder.stats()).cold;

/** Fails if less memory is given than a batch needs, and says how much that is. */
async function leastMemory() {
  const error = await load({ memory: 1 }).catch((thrown) => thrown);
  assert.equal(error.code, 'argument');
  assert.equal(error.field, 'memory');
  return Number(/the least is (\d+) bytes/.exec(error.message)?.[1]);
}

/** @param {Embedder} embedder */
async function check(embedder) {
  assert.deepEqual(await embedder.embed(TEXTS), expected);
  await Promise.all(
    TEXTS.map(async (text, i) => {
      const row = await embedder.embed(text);
      assert.deepEqual(row.subarray(0, embedder.dimensions), expected.row(i));
    }),
  );
}

test('with the least memory rows have the same bits, for any number of workers', async () => {
  const memory = await leastMemory();
  assert.ok(memory > 10_000);
  assert.equal(coldOf(await load({})).memory.least, memory);
  await assert.rejects(load({ memory: memory - 1 }), { code: 'argument', field: 'memory' });
  let seed = 7;
  server.fault = (_, next) => {
    seed = (seed * 48271) % 2147483647;
    setTimeout(next, seed % 7);
  };
  for (const workers of [0, 1, 4]) {
    const embedder = await load({ memory, workers });
    assert.ok(embedder.info().residentBytes <= memory);
    await check(embedder);
    const {
      hits,
      misses,
      evictions,
      skipped,
      memory: held,
      presentBytes,
      hotBytes,
    } = coldOf(embedder);
    assert.deepEqual([held.budget, held.least], [memory, memory]);
    assert.ok(held.hot > 0 && held.warm > 0 && held.warm < held.cold);
    assert.ok(misses > 0 && hits + misses > 0 && evictions > 0);
    assert.equal(skipped, 0);
    assert.equal(presentBytes, hotBytes, 'nothing stays on the calling thread');
  }
});

test('with all memory that the model can use nothing is given up', async () => {
  const embedder = await load({ memory: 1e9 });
  await check(embedder);
  assert.equal(coldOf(embedder).evictions, 0);
});

test('what was given up comes from the store, and from the server where there is none', async () => {
  const memory = await leastMemory();
  const asks = async (/** @type {boolean} */ store) => {
    server.forget();
    const embedder = await load({ memory, store });
    await check(embedder);
    await check(embedder);
    assert.ok(coldOf(embedder).evictions > 0);
    const ranges = server.asked.map(String);
    return ranges.length - new Set(ranges).size;
  };
  assert.equal(await asks(true), 0);
  assert.ok((await asks(false)) > 0);
});

test('the rest is stored in the background, and takes no memory', async () => {
  const embedder = await load({ memory: await leastMemory(), store: true, complete: true });
  while (coldOf(embedder).rest === 'running') await new Promise((done) => setTimeout(done, 10));
  assert.equal(coldOf(embedder).rest, 'done');
  assert.equal(coldOf(embedder).presentBytes, bytes.length);
  server.forget();
  await check(embedder);
  assert.deepEqual(server.asked, []);
  // Without a store it would have to stay in memory.
  const without = await load({ memory: await leastMemory(), complete: true });
  while (coldOf(without).rest === 'running') await new Promise((done) => setTimeout(done, 10));
  assert.equal(coldOf(without).rest, 'off');
});

test('files are read again', async () => {
  const embedder = await load({ memory: await leastMemory() }, path);
  await check(embedder);
  assert.ok(coldOf(embedder).evictions > 0);
});

test('memory is refused where nothing can be evicted', async () => {
  for (const options of [{ cold: 'all' }, { cold: 'skip' }, {}]) {
    const loading = Embedder.load(server.url, /** @type {any} */ ({ ...options, memory: 1e6 }));
    await assert.rejects(loading, { code: 'argument', field: 'memory' });
  }
  for (const memory of [0, 0.5, -1, '9', NaN]) {
    await assert.rejects(load({ memory }), { code: 'argument', field: 'memory' });
    const loading = Embedder.load(server.url, /** @type {any} */ ({ memory }));
    await assert.rejects(loading, { code: 'argument', field: 'memory' });
  }
  server.fault = (response) => response.end(bytes); // the whole file instead of a range
  await assert.rejects(load({ memory: 1e6 }), { code: 'unsupported', field: 'memory' });
});

for (const [store, workers] of /** @type {const} */ ([
  [true, 2],
  [false, 0],
]))
  // prettier-ignore
  test(`skip: all neurons come in the background, store: ${store}`, async () => {
    const visit = async () => {
      const embedder = await load({ mode: 'skip', complete: true, store, workers });
      while (coldOf(embedder).rest === 'running') await new Promise((done) => setTimeout(done, 10));
      assert.equal(coldOf(embedder).rest, 'done');
      for (;;) {
        const rows = await embedder.embed(TEXTS);
        if (/** @type {any} */ (rows).skipped > 0) continue; // a worker is about to get them
        assert.deepEqual(new Float32Array(rows), new Float32Array(expected));
        return embedder;
      }
    };
    const embedder = await visit();
    // An engine that is opened anew gets them, too.
    await embedder.setSparse({ predictor: 'lowrank', sparsity: 0.5 });
    await embedder.setSparse({});
    if (store) {
      server.forget();
      await visit();
      assert.equal(server.asked.length, 1, 'whether the file is the same');
    }
  });
