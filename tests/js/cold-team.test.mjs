// SPDX-License-Identifier: Apache-2.0
// Workers of models by range in Node: threads of one worker, which share its memory. tests/js/cold-browsers.test.mjs has pages.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { Embedder } from '../../js/node.js';
import { shortTexts } from './pool/texts.mjs';
import { serveRanges } from './range-server.mjs';
import { withoutChunks } from './rechunk.mjs';
import { ROOT, smallColdModel, smallColdTokensModel } from './support.mjs';

const LONG = 'water finds its own way down from any hill '.repeat(9);
const TEXTS = [...shortTexts(300, 3), LONG, LONG.slice(0, 90)];
const SIZES = { gap: 64, first: 4096, complete: false, store: false };
const MODELS = {
  neurons: readFileSync(smallColdModel('mean-shards', '0.2')),
  tokens: readFileSync(smallColdTokensModel()),
  /** Without chunks, so that a call waits often. */
  rows: withoutChunks(readFileSync(smallColdModel('mean-shards', '0.2'))),
};

const folder = mkdtempSync(join(tmpdir(), 'wisp-cold-team-'));

/** @type {import('./range-server.mjs').RangeServer} */
let server;
/** @type {Embedder[]} */
const opened = [];
before(async () => {
  server = await serveRanges(MODELS.neurons);
});
beforeEach(() => use('neurons'));
afterEach(async () => {
  await Promise.all(opened.splice(0).map((embedder) => embedder.destroy()));
});
after(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

/** @param {keyof typeof MODELS} model */
function use(model) {
  server.bytes = MODELS[model];
  server.etag = `"${model}"`;
  server.fault = undefined;
  server.forget();
}

/** Answers come late, and not in the order of the requests. */
function shuffle() {
  let seed = 7;
  server.fault = (_, next) => {
    seed = (seed * 48271) % 2147483647;
    setTimeout(next, seed % 13);
  };
}

/** @param {any} [options] */
async function load({ mode = 'wait', ...options } = {}) {
  const embedder = await Embedder.load(server.url, { cold: { mode, ...SIZES }, ...options });
  opened.push(embedder);
  return embedder;
}

/** @param {Embedder} embedder @returns {import('../../types/index.js').ColdTotals} */
const coldOf = (embedder) => /** @type {any} */ (embedder.stats()).cold;

/** Rows by one thread, of all calls that `rowsOf` makes. */
async function expectedRows() {
  const embedder = await load({ workers: 0 });
  const rows = await rowsOf(embedder);
  await embedder.close();
  return rows;
}

/** @param {Embedder} embedder */
async function rowsOf(embedder) {
  const calls = [TEXTS, TEXTS.slice(0, 2), [LONG], ['a'], TEXTS];
  const rows = await Promise.all(calls.map((texts) => embedder.embed(texts)));
  return rows.map((each) => Array.from(each));
}

/**
 * Asserts that calls have the rows that they are to have, by the workers that were there from the beginning.
 * @param {Embedder} embedder
 * @param {number[][]} expected
 */
async function assertSound(embedder, expected) {
  assert.deepEqual(await rowsOf(embedder), expected);
  assert.equal(embedder.stats().lostWorkers, 0);
}

/** Asserts that no byte was asked for twice. */
function assertOnce() {
  const ranges = [...server.asked].sort((a, b) => a[0] - b[0]);
  ranges.forEach(([from], i) => {
    if (i > 0) assert.ok(from > ranges[i - 1][1], `${ranges[i - 1]} and ${from}`);
  });
}

for (const model of /** @type {const} */ (['neurons', 'tokens'])) {
  describe(`cold ${model}`, () => {
    for (const [options, workers, threads] of /** @type {[object, number, number][]} */ ([
      [{ workers: 1 }, 1, 1],
      [{ workers: 2 }, 1, 2],
      [{ workers: 3 }, 1, 3],
      [{ workers: 4 }, 1, 4],
      [{ threads: 2 }, 1, 2],
      [{ workers: 2, threads: 2 }, 2, 2],
      [{ workers: 9 }, 9, 1],
    ])) {
      test(`${JSON.stringify(options)}: ${workers} workers with ${threads} threads have the bits of one`, async () => {
        use(model);
        const expected = await expectedRows();
        server.forget();
        shuffle();
        const embedder = await load(options);
        const { workers: found, threads: each = 1, reasons } = embedder.info();
        assert.deepEqual([found, each], [workers, threads]);
        assert.equal(embedder.stats().workers, workers);
        if (!('threads' in options) && threads > 1) {
          const reason = `${threads} threads of one worker share its memory: asked for`;
          assert.equal(reasons.workers, reason);
        }
        assert.deepEqual(await rowsOf(embedder), expected);
        assertOnce();
        const { misses, warmTokens, requests } = coldOf(embedder);
        assert.ok(warmTokens > 0 && (misses > 0 || model === 'tokens'));
        assert.equal(requests, server.asked.length);
      });
    }

    test('with the least memory all threads compute one batch, with the same bits', async () => {
      use(model);
      const expected = await expectedRows();
      const refused = await load({ workers: 2, memory: 1 }).catch((error) => error);
      assert.deepEqual([refused.code, refused.field], ['argument', 'memory']);
      const memory = Number(/the least is (\d+) bytes/.exec(refused.message)?.[1]);
      for (const workers of [2, 4]) {
        const embedder = await load({ workers, memory });
        assert.equal(embedder.info().threads, workers);
        assert.ok(embedder.info().residentBytes <= memory);
        assert.deepEqual(await rowsOf(embedder), expected);
        const { memory: held, evictions, presentBytes, hotBytes } = coldOf(embedder);
        assert.deepEqual([held.budget, held.least], [memory, memory]);
        assert.ok(evictions > 0 || model === 'tokens');
        assert.equal(presentBytes, hotBytes, 'nothing stays on the calling thread');
      }
    });
  });
}

test('the model stands in memory once, whatever the number of threads', async () => {
  const sizes = [];
  for (const workers of [1, 2, 4]) {
    const embedder = await load({ workers });
    await embedder.embed(TEXTS);
    sizes.push(embedder.info().residentBytes);
    assert.equal(embedder.stats().workers, 1);
  }
  assert.equal(new Set(sizes).size, 1, sizes.join());
});

test('skip: as many neurons are left out, and rows have the same bits', async () => {
  const found = [];
  for (const workers of [1, 3]) {
    const embedder = await load({ mode: 'skip', workers });
    const rows = await embedder.embed(TEXTS);
    const { skipped } = /** @type {any} */ (rows);
    assert.ok(skipped > 0);
    assert.equal(coldOf(embedder).skipped, skipped);
    found.push([skipped, ...rows].map((row) => (typeof row === 'number' ? row : Array.from(row))));
  }
  assert.deepEqual(found[1], found[0]);
});

test('a call that is aborted while its pass waits; the next has the same bits', async () => {
  use('rows');
  const expected = await expectedRows();
  const embedder = await load({ workers: 2 });
  await embedder.embed('a'); // so that some passes wait in a layer
  for (const after of [0, 1, 3]) {
    const stop = new AbortController();
    server.forget();
    server.fault = (_, next, __, number) => (number >= after ? stop.abort() : next());
    const call = embedder.embed(TEXTS, { signal: stop.signal });
    if (after === 0) await assert.rejects(call, { code: 'cancelled' });
    else await call.catch(({ code }) => assert.equal(code, 'cancelled'));
    while (server.open > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    server.fault = undefined;
  }
  await assertSound(embedder, expected);
});

test('a range that fails fails its call, and the next has the same bits', async () => {
  use('rows');
  const expected = await expectedRows();
  const embedder = await load({ workers: 2 });
  for (const failing of [0, 1, 2]) {
    server.forget();
    server.fault = (response, next, _, number) =>
      number >= failing ? void response.writeHead(404).end() : next();
    await assert.rejects(embedder.embed(TEXTS), { name: 'WispError', code: 'not_found' });
  }
  server.fault = undefined;
  await assertSound(embedder, expected);
});

test('a worker that ends while it waits is replaced with its threads; no call is lost', async () => {
  use('rows');
  const expected = await expectedRows();
  /** @type {Worker[]} */
  const made = [];
  const worker = () => {
    made.push(new Worker(new URL('../../js/cold-worker-node.js', import.meta.url)));
    return made[made.length - 1];
  };
  const embedder = await load({ threads: 2, worker });
  let ended = 0;
  server.fault = (_, next) => {
    if (ended++ === 0) void made[0].terminate().then(next);
    else next();
  };
  assert.deepEqual(await rowsOf(embedder), expected);
  assert.ok(ended > 0);
  const { lostWorkers, workers } = embedder.stats();
  assert.deepEqual([lostWorkers, workers, made.length], [1, 1, 2]);
  assert.equal(embedder.info().threads, 2);
});

test('destroy while a pass waits; close waits for it', async () => {
  const embedder = await load({ workers: 2 });
  server.fault = () => void embedder.destroy();
  await assert.rejects(embedder.embed(TEXTS), { code: 'closed' });
  use('neurons');
  const other = await load({ workers: 2 });
  const call = other.embed(TEXTS);
  await other.close();
  assert.equal((await call).count, TEXTS.length);
});

test('setSparse opens the model again for the threads', async () => {
  const expected = await expectedRows();
  server.forget();
  const embedder = await load({ workers: 2 });
  await embedder.embed('a');
  const { reads, readBytes, hits, misses } = coldOf(embedder);
  assert.ok(reads > 0 && readBytes > 0);
  await embedder.setSparse({ predictor: 'lowrank' });
  const now = coldOf(embedder);
  assert.deepEqual([now.reads, now.readBytes, now.hits, now.misses], [reads, readBytes, hits, misses]); // prettier-ignore
  assert.deepEqual(await rowsOf(embedder), expected);
  assertOnce();
});

test('without the module of threads, workers have memory of their own', async () => {
  const expected = await expectedRows();
  const js = join(folder, 'js');
  mkdirSync(js);
  for (const name of readdirSync(`${ROOT}js`))
    if (!/embed-threads/.test(name)) symlinkSync(`${ROOT}js/${name}`, join(js, name));
  server.forget();
  const embedder = await load({ workers: 2, files: pathToFileURL(`${folder}/`) });
  const { workers, threads, reasons } = embedder.info();
  assert.deepEqual([workers, threads], [2, 1]);
  assert.match(reasons.workers, /^asked for; none share memory: .*wisp-embed-threads-\w+\.wasm/);
  assert.deepEqual(await rowsOf(embedder), expected);
});

test('threads that are not as many as may be', async () => {
  for (const threads of [0, 9, 1.5])
    await assert.rejects(load({ threads }), { code: 'argument', field: 'threads' });
  const embedder = await load({ workers: 0, threads: 2 });
  assert.deepEqual([embedder.info().workers, embedder.info().threads], [0, 1]);
});
