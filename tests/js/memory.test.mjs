// SPDX-License-Identifier: Apache-2.0
// Memory over many texts and many embedders, and after they are closed.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Embedder } from '../../js/node.js';
import { shortTexts } from './pool/texts.mjs';
import { extent, smallModel } from './support.mjs';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

/** Resident megabytes, and those that JavaScript owns, after garbage collection. */
async function memoryInUse() {
  for (let i = 0; i < 3; i++) {
    collectGarbage();
    await new Promise((done) => setTimeout(done, 20));
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  return { resident: rss / 1e6, owned: (heapUsed + external) / 1e6 };
}

/** @typedef {Awaited<ReturnType<typeof memoryInUse>>} Memory */

/**
 * A leak in each round shows in the memory that JavaScript owns, to the kilobyte. Resident memory goes up
 * and down by tens of megabytes with threads that come and go (between 79 and 88 MB over 1,000
 * rounds in a process of their own): there, only workers and models that stay would show.
 * @param {Memory} before
 * @param {Memory} after
 * @param {number} most megabytes resident
 */
function assertFlat(before, after, most) {
  assert.ok(after.owned < before.owned + 1, `${before.owned} MB became ${after.owned} MB`);
  assert.ok(
    after.resident < before.resident + most,
    `resident: ${before.resident} MB became ${after.resident} MB`,
  );
}

/** Growth of a worker's memory after the 2,000th text: chunks are cut by who is idle when. */
const WORKSPACE = 2e6;

/** Threads and open files of this process. */
const countHandles = () => ({
  threads: readdirSync('/proc/self/task').length,
  files: readdirSync('/proc/self/fd').length,
});

test('10,000 texts through 2 workers: flat after the 2,000th', async () => {
  const most = extent('texts', 10_000, 4000);
  const embedder = await Embedder.load(undefined, { workers: 2 });
  let settled = { resident: 0, owned: 0 };
  let settledBytes = 0;
  for (let done = 0; done < most; done += 500) {
    if (done === 2000) {
      settled = await memoryInUse();
      settledBytes = embedder.stats().memoryBytes;
    }
    await embedder.embed(shortTexts(500, done));
  }
  const { memoryBytes, texts } = embedder.stats();
  const ended = await memoryInUse();
  await embedder.close();
  assert.equal(texts, most);
  assert.ok(memoryBytes < settledBytes + 2 * WORKSPACE, `${settledBytes} became ${memoryBytes}`);
  assertFlat(settled, ended, 40);
});

/**
 * @param {number} times
 * @param {string | undefined} source
 */
async function cycle(times, source) {
  for (let i = 0; i < times; i++) {
    const embedder = await Embedder.load(source, { workers: 1 });
    await embedder.embed(['one', 'two']);
    await (i % 2 ? embedder.close() : embedder.destroy());
  }
}

for (const [times, source] of /** @type {const} */ ([
  [200, smallModel()],
  [1000, undefined],
])) {
  const model = source ? 'a small model' : 'the default model';
  test(`${times} times load, embed, close of ${model}: flat, nothing left`, async () => {
    const cycles = extent('cycles', times, source ? times / 2 : 32);
    await cycle(cycles / 4, source);
    const handles = countHandles();
    const before = await memoryInUse();
    await cycle((cycles * 3) / 4, source);
    assertFlat(before, await memoryInUse(), 100);
    assert.deepEqual(countHandles(), handles);
  });
}
