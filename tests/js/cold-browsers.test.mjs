// SPDX-License-Identifier: Apache-2.0
// Cold neurons by range in real browsers, whatever a server sends.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { shortTexts } from './pool/texts.mjs';
import { rangeFaults } from './range-faults.mjs';
import { serveRanges } from './range-server.mjs';
import { noTool, onlyInAll, smallColdModel } from './support.mjs';

const TEXTS = shortTexts(24, 3);
const bytes = readFileSync(smallColdModel());

const PAGE = '/cold.html';

/** @param {string} path */
const page = (path) =>
  path === PAGE ? { body: '<!doctype html><link rel="icon" href="data:,">' } : undefined;

for (const browser of ['chromium', 'firefox']) {
  const inOneBrowser = browser === 'chromium' ? false : onlyInAll;
  describe(`cold neurons in ${browser}`, { skip: inOneBrowser || noTool(browser) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Awaited<ReturnType<typeof serve>>[]} */
    let servers;
    before(async () => {
      servers = await Promise.all([serve({ page }), serve({ page, isolated: true })]);
      tab = await launch[browser]();
    });
    after(async () => {
      await tab.close();
      await Promise.all(servers.map((server) => server.close()));
    });
    const visit = (/** @type {number} */ isolated) => tab.open(servers[isolated].origin + PAGE);

    for (const isolated of [0, 1]) {
      for (const workers of isolated ? [4] : [0, 1, 4]) {
        const kind = isolated ? 'an isolated' : 'a plain';
        test(`${kind} page, ${workers} workers: the bits of the whole model, ranges in any order`, async () => {
          await visit(isolated);
          const server = await serveRanges(bytes);
          let seed = 7;
          server.fault = (_, next) => {
            seed = (seed * 48271) % 2147483647;
            setTimeout(next, seed % 13);
          };
          const found = await tab.call('embedByRanges', server.url, TEXTS, workers);
          await server.close();
          assert.ok(found.equal);
          assert.ok(found.skipped > 0);
          assert.equal(found.cold.mode, 'wait');
          assert.ok(found.cold.misses > 0);
          assert.equal(found.sharedMemory, isolated === 1 && workers > 0);
          assert.deepEqual(found.pool, isolated ? [1, workers] : [workers, 1]);
        });
      }
    }

    test('with the least memory: the bits of the whole model', async () => {
      const server = await serveRanges(readFileSync(smallColdModel('mean-shards', '0.2')));
      for (const [isolated, workers] of [
        [0, 0],
        [0, 1],
        [0, 4],
        [1, 2],
        [1, 4],
      ]) {
        // prettier-ignore
        await visit(isolated);
        const found = await tab.call('embedInLeastMemory', server.url, TEXTS, workers);
        assert.equal(found.code, 'argument');
        assert.ok(found.equal);
        assert.ok(found.cold.evictions > 0);
        assert.equal(found.cold.presentBytes, found.cold.hotBytes);
      }
      await server.close();
    });

    for (const [what, why] of /** @type {[string, RegExp][]} */ ([
      ['thread', /^asked for; none share memory: 1 of 2 threads started: .*no more of them/],
      ['module', /^asked for; none share memory: .*wisp-embed-threads-\w+\.wasm.* 404/],
    ])) {
      test(`without a ${what} that threads need, workers have memory of their own`, async () => {
        await visit(1);
        const server = await serveRanges(bytes);
        const { rows } = await tab.call('openFromFaulty', server.url, TEXTS);
        server.forget();
        const found = await tab.call('embedWithout', what, server.url, TEXTS);
        assert.equal(found.rows, rows);
        assert.deepEqual(found.pool, [2, 1]);
        assert.match(found.reason, why);
        // Without the module, the beginning of the file is no longer wanted before it has come.
        const asked = [...server.asked].sort((a, b) => a[0] - b[0]);
        if (what === 'thread')
          asked.forEach(([from], i) => assert.ok(i === 0 || from > asked[i - 1][1], `${from}`));
        await server.close();
      });
    }

    test('a worker with threads that ends while it waits is replaced, and no call is lost', async () => {
      await visit(1);
      const server = await serveRanges(bytes);
      const { rows } = await tab.call('openFromFaulty', server.url, TEXTS);
      let ask = () => {};
      const asked = new Promise((resolve) => (ask = () => resolve(undefined)));
      /** @type {(() => void)[]} */
      const held = [];
      server.told = async (path) => {
        if (path === '/asked') return void (await asked);
        server.fault = path === '/fault' ? (_, next) => void (held.push(next), ask()) : undefined;
        if (path === '/mend') held.forEach((next) => next());
      };
      const found = await tab.call('loseWhileWaiting', server.url, TEXTS);
      await server.close();
      assert.deepEqual(found.rows, [rows, rows]);
      assert.deepEqual([found.pool, found.lostWorkers, found.made], [[1, 2], 1, 4]);
    });

    test('what servers send for ranges: right rows, or a typed error after which rows are right', async () => {
      await visit(0);
      const names = Object.keys(rangeFaults(undefined, bytes).ranges);
      const all = await Promise.all(
        names.map(async (name) => {
          const server = await serveRanges(bytes);
          const { fault, error } = rangeFaults(server, bytes).ranges[name];
          const set = (/** @type {typeof fault | undefined} */ wanted) => {
            server.forget();
            server.fault = wanted;
          };
          server.told = (path) => set(path === '/fault' ? fault : undefined);
          const found = await tab.call('embedFromFaulty', server.url, TEXTS);
          await server.close();
          return { name, error, found };
        }),
      );
      for (const { name, error, found } of all) {
        assert.equal(found.error?.name, error && 'WispError', `${name}: ${found.error?.message}`);
        // A browser may itself refuse what it cannot read, which is an error of the connection.
        if (error) assert.equal(found.error.code, error.code, `${name}: ${found.error.message}`);
        assert.ok(found.equal, name);
        assert.equal(found.rows, all[0].found.rows, name);
        assert.equal(found.lostWorkers, 0, name);
      }
    });

    test('what servers send while a model is opened: right rows, or a typed error', async () => {
      await visit(0);
      const right = await serveRanges(bytes);
      const { rows } = await tab.call('openFromFaulty', right.url, TEXTS);
      assert.equal(typeof rows, 'string');
      await right.close();
      await Promise.all(
        Object.keys(rangeFaults(undefined, bytes).opening).map(async (name) => {
          const server = await serveRanges(bytes);
          const { fault, error, mode = 'wait' } = rangeFaults(server, bytes).opening[name];
          server.fault = fault;
          const found = await tab.call('openFromFaulty', server.url, TEXTS);
          await server.close();
          // A browser may itself refuse a coding that it has not asked for.
          if (/compressed/.test(name) && found.error?.code === 'io') return;
          assert.equal(found.error?.name, error && 'WispError', `${name}: ${found.error?.message}`);
          if (error) assert.equal(found.error.code, error.code, `${name}: ${found.error.message}`);
          else assert.deepEqual([found.rows, found.mode], [rows, mode], name);
        }),
      );
    });

    test('a server of another origin that hides what it sends: the error names the header that is missing', async () => {
      await visit(0);
      const server = await serveRanges(bytes);
      server.fault = (response, next) => {
        response.removeHeader('Access-Control-Expose-Headers');
        next();
      };
      const { error } = await tab.call('openFromFaulty', server.url, TEXTS);
      await server.close();
      assert.deepEqual([error.name, error.code], ['WispError', 'io']);
      assert.match(error.message, /Access-Control-Expose-Headers: Content-Range, ETag/);
    });

    test('ranges that the browser may keep are not taken for the whole file, nor the other way round', async () => {
      await visit(0);
      const server = await serveRanges(bytes);
      server.fault = (response, next) => {
        response.setHeader('Cache-Control', 'public, max-age=3600');
        next();
      };
      const { rows } = await tab.call('openFromFaulty', server.url, TEXTS);
      assert.equal(await tab.call('embedWhole', server.url, TEXTS), rows);
      assert.ok(
        server.asked.some(([from]) => Number.isNaN(from)),
        'the whole file was fetched',
      );
      server.forget();
      assert.equal((await tab.call('openFromFaulty', server.url, TEXTS)).rows, rows);
      assert.ok(server.asked.length > 1, 'ranges come from the server each time');
      await server.close();
    });

    test('a request without a byte for some time is made again', async () => {
      await visit(0);
      const server = await serveRanges(bytes);
      server.fault = rangeFaults(undefined, bytes).first(() => {}, 1);
      const { bytes: came, requests } = await tab.call('fetchStalled', server.url);
      assert.deepEqual(Buffer.from(came), bytes.subarray(0, 1000));
      assert.ok(requests >= 2, `${requests}`); // more if the machine is busy for so long
      server.fault = () => {};
      const { error } = await tab.call('fetchStalled', server.url);
      assert.deepEqual([error.name, error.code], ['WispError', 'io']);
      assert.match(error.message, /: 0 of \d+ bytes have come, 0 in the last 50 ms/);
      await server.close();
    });

    for (const isolated of [0, 1])
      test(`${isolated ? 'an isolated' : 'a plain'} page: a call that is aborted while the server is silent; the next is right`, async () => {
        await visit(isolated);
        const server = await serveRanges(bytes);
        let ask = () => {};
        const asked = new Promise((resolve) => (ask = () => resolve(undefined)));
        server.told = async (path) => {
          if (path === '/asked') return void (await asked);
          server.fault = path === '/fault' ? ask : undefined;
        };
        const found = await tab.call('abortRanges', server.url, TEXTS);
        await server.close();
        assert.deepEqual(found, {
          error: { name: 'AbortError', code: 'cancelled' },
          count: TEXTS.length,
          lostWorkers: 0,
        });
      });
  });
}
