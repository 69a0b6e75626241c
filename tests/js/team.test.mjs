// SPDX-License-Identifier: Apache-2.0
// Workers of isolated pages: threads of one worker, which share its memory.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { noTool, onlyInAll, smallModel } from './support.mjs';

const PAGE = '/tests/js/page/blank.html';

/** MB that a further worker may take, of the page's resident memory. */
const FURTHER_MB = 16;

smallModel();

for (const name of ['chromium', 'firefox']) {
  const inOneBrowser = name === 'chromium' ? false : onlyInAll;
  describe(name, { skip: inOneBrowser || noTool(name) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Record<'plain' | 'isolated', Awaited<ReturnType<typeof serve>>>} */
    let servers;
    /** @type {string} rows of one worker without threads */
    let expected;
    before(async () => {
      servers = { plain: await serve(), isolated: await serve({ isolated: true }) };
      tab = await launch[name]();
      await tab.open(servers.isolated.origin + PAGE);
      const one = await tab.call('loadTeam', { workers: 1 });
      assert.deepEqual([one.workers, one.threads, one.reason], [1, undefined, 'asked for']);
      expected = one.rows;
    });
    beforeEach(() => tab.open(servers.isolated.origin + PAGE));
    after(async () => {
      await tab.close();
      await Promise.all(Object.values(servers).map((server) => server.close()));
    });

    for (const workers of [2, 3]) {
      test(`${workers} workers are one with ${workers} threads`, async () => {
        const found = await tab.call('loadTeam', { workers });
        assert.equal(found.rows, expected);
        assert.deepEqual([found.workers, found.threads], [1, workers]);
        assert.equal(found.reason, `${workers} threads of one worker share its memory: asked for`);
        assert.equal(found.stats.workers, 1);
      });
    }

    test('by default there is a thread for each core, at most 4', async () => {
      const { rows, workers, threads = 1, reason } = await tab.call('loadTeam', {});
      assert.equal(rows, expected);
      assert.equal(workers, 1);
      assert.ok(threads <= 4);
      assert.match(reason, /one for each of \d+ cores, at most 4$/);
    });

    test('none on the calling thread', async () => {
      const { rows, workers, threads } = await tab.call('loadTeam', { workers: 0 });
      assert.deepEqual([rows, workers, threads], [expected, 0, undefined]);
    });

    for (const own of ['worker', 'wasm', 'integrity']) {
      test(`where the page gives ${own}, workers have memory of their own`, async () => {
        const { rows, workers, threads, reason } = await tab.call('loadTeam', { workers: 2 }, own);
        assert.deepEqual([rows, workers, threads, reason], [expected, 2, undefined, 'asked for']);
      });
    }

    test('more workers than a module has room for have memory of their own', async () => {
      const { rows, workers, threads } = await tab.call('loadTeam', { workers: 9 });
      assert.deepEqual([rows, workers, threads], [expected, 9, undefined]);
    });

    for (const [what, why] of /** @type {[string, RegExp][]} */ ([
      ['thread', /^asked for; none share memory: 1 of 2 threads started: .*no more of them/],
      ['module', /^asked for; none share memory: .*wisp-embed-threads-\w+\.wasm.* 404/],
    ])) {
      test(`without a ${what} that threads need, workers have memory of their own`, async () => {
        const { rows, workers, threads, reason } = await tab.call('loadWithout', what);
        assert.deepEqual([rows, workers, threads], [expected, 2, undefined]);
        assert.match(reason, why);
      });
    }

    test('a thread that is asked for and does not start is said to be missing, and why', async () => {
      const { rows, threads, reasons } = await tab.call('loadWithout', 'thread', { threads: 2 });
      assert.deepEqual([rows, threads], [expected, 1]);
      assert.match(reasons.threads, /^1 of 2 threads started: .*no more of them/);
    });

    test('a model that is not there is asked for once', async () => {
      const { code, message, fetched } = await tab.call('loadMissing');
      assert.deepEqual([code, fetched], ['not_found', 1]);
      assert.match(message, /no-such\.gguf: HTTP 404/);
    });

    test('where the browser has no room for shared memory, the model is fetched once', async () => {
      const { pool, asked, fetched } = await tab.call('loadWithoutMemory');
      assert.deepEqual([pool.rows, pool.workers, pool.threads], [expected, 2, undefined]);
      assert.match(pool.reasons.memory, /no room/);
      assert.deepEqual([asked.rows, asked.threads], [expected, 1]);
      assert.match(asked.reasons.threads, /no room/);
      assert.equal(fetched, 2, 'for two loads');
    });

    test('a worker that is terminated takes its memory with it, and no call is lost', async () => {
      const { rows, lostWorkers, workers } = await tab.call('loseTeam');
      assert.deepEqual(rows, [expected, expected, expected]);
      assert.deepEqual([lostWorkers, workers], [1, 1]);
    });

    test('in a plain page each has memory of its own', async () => {
      await tab.open(servers.plain.origin + PAGE);
      const { rows, workers, threads, reason } = await tab.call('loadTeam', { workers: 2 });
      assert.deepEqual([rows, workers, threads, reason], [expected, 2, undefined, 'asked for']);
    });

    if (name !== 'chromium') return; // others do not say what their processes take
    test(`a further worker takes at most ${FURTHER_MB} MB`, async () => {
      const added = async (/** @type {number} */ workers) => {
        const page = await launch[name]();
        const resident = /** @type {() => Promise<number>} */ (page.residentMegabytes);
        await page.open(servers.isolated.origin + PAGE);
        await page.call('loadTeam', { workers: 0 }); // what the browser itself needs
        const before = await resident();
        await page.call('stay', workers);
        const after = await resident();
        await page.close();
        return after - before;
      };
      // A browser's processes grow and shrink for reasons of their own, so it is tried three times.
      let [one, three] = [0, Infinity];
      for (let i = 0; i < 3 && three - one > 2 * FURTHER_MB; i++)
        [one, three] = [await added(1), await added(3)];
      assert.ok(one > 20 && three - one <= 2 * FURTHER_MB, `${one} MB became ${three} MB`);
    });
  });
}
