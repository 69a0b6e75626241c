// SPDX-License-Identifier: Apache-2.0
// The package in real browsers, from a plain static server, with and without isolation.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { amount } from './campaign/amount.mjs';
import { cases } from './pool/cases.mjs';
import {
  floatsOf,
  noShared,
  noTool,
  onlyInAll,
  readShared,
  smallCalibratedModel,
} from './support.mjs';

const SIZE = 384;
const PAGE = '/tests/js/page/blank.html';

smallCalibratedModel();

/** Golden rows by kernel set: two browsers with the same set compute the same rows. */
const byKernels = /** @type {Map<string, Float32Array>} */ (new Map());

/**
 * Passes requests on under the name that a server of this machine answers to.
 * @param {string} to its origin
 */
async function forward(to) {
  const server = createServer((request, response) => {
    const { host } = new URL(to);
    get(to + request.url, { headers: { ...request.headers, host } }, (reply) => {
      response.writeHead(reply.statusCode ?? 500, reply.headers);
      reply.pipe(response);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${port}`,
    close: async () => {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}

/** @param {string} text */
const decode = (text) => floatsOf(Buffer.from(text, 'base64'));

for (const name of ['chromium', 'firefox']) {
  const inOneBrowser = name === 'chromium' ? false : onlyInAll;
  describe(name, { skip: inOneBrowser || noTool(name) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Record<'plain' | 'isolated', Awaited<ReturnType<typeof serve>>>} */
    let servers;
    before(async () => {
      servers = { plain: await serve(), isolated: await serve({ isolated: true }) };
      tab = await launch[name]();
    });
    after(async () => {
      await tab.close();
      await Promise.all(Object.values(servers).map((server) => server.close()));
    });

    describe('golden texts', { skip: noShared || onlyInAll }, () => {
      const texts = noShared
        ? []
        : JSON.parse(String(readShared('golden/all-MiniLM-L6-v2/texts.json')));
      /** @type {Float32Array} */
      let expected;
      before(async () => {
        await tab.open(servers.plain.origin + PAGE);
        const { rows, kernels } = await tab.call('embedAlone', texts);
        expected = decode(rows);
        const known = byKernels.get(kernels);
        if (known) assert.deepEqual(expected, known, `another browser differs, ${kernels}`);
        byKernels.set(kernels, expected);
      });

      for (const [kind, workers] of /** @type {const} */ ([
        ['plain', 4],
        ['isolated', 1],
      ])) {
        test(`${kind} page, ${workers} workers: the bits of the module alone`, async () => {
          await tab.open(servers[kind].origin + PAGE);
          const order = texts.map((/** @type {string} */ _, /** @type {number} */ i) =>
            workers === 1 ? i : (i * 199) % texts.length,
          );
          const { rows, info } = await tab.call(
            'embedPooled',
            order.map((/** @type {number} */ i) => texts[i]),
            workers,
          );
          const found = decode(rows);
          order.forEach((/** @type {number} */ place, /** @type {number} */ i) =>
            assert.deepEqual(
              found.subarray(i * SIZE, (i + 1) * SIZE),
              expected.subarray(place * SIZE, (place + 1) * SIZE),
              `text ${place}`,
            ),
          );
          assert.equal(info.workers, workers);
          assert.equal(info.sharedMemory, kind === 'isolated');
          assert.match(
            info.reasons.memory,
            kind === 'isolated' ? /is cross-origin/ : /not cross-origin/,
          );
        });
      }
    });

    for (const kind of /** @type {const} */ (['plain', 'isolated'])) {
      test(
        `${kind} page: every source gives the same`,
        { skip: kind === 'isolated' && onlyInAll },
        async () => {
          await tab.open(servers[kind].origin + PAGE);
          const { results, left } = await tab.call('embedFromSources');
          assert.equal(results.length, 6);
          assert.ok(results.every((/** @type {string} */ rows) => rows === results[0]));
          assert.ok(left > 0, 'the buffer was taken');
        },
      );
    }

    test('what cannot be loaded is an error of its kind', async () => {
      await tab.open(servers.plain.origin + PAGE);
      assert.deepEqual(await tab.call('failToLoad'), [
        'WispError not_found',
        'WispError format',
        'WispError not_found',
      ]);
    });

    describe('faults', { skip: onlyInAll }, () => {
      before(() => tab.open(servers.plain.origin + PAGE));
      for (const fault of Object.keys(cases)) test(fault, () => tab.call('runCase', fault));
    });

    test('streams, chunks and searches', async () => {
      await tab.open(servers.plain.origin + PAGE);
      const names = await tab.call('runTextsCases');
      assert.ok(names.length >= 15, String(names));
    });

    // While each load kept a Blob, every load from the 27th on failed in a plain page.
    for (const kind of /** @type {const} */ (['plain', 'isolated'])) {
      // Each load reads the model from the browser's cache; a model that stays is seen after some cycles.
      // Firefox, when a program drives it, keeps the body of each response in its main process: 20 MB a load.
      const campaign = name === 'firefox' ? 100 : 1000;
      const times = amount(`cycles, ${kind} page`, { sample: 30, all: 60, campaign });
      test(`${kind} page: ${times} times load, embed, close of the default model`, async () => {
        await tab.open(servers[kind].origin + PAGE);
        const warm = Math.min(times / 2, 200);
        const workers = kind === 'isolated' ? 2 : 1;
        await tab.call('cycle', warm, 'default', workers);
        const before = (await tab.residentMegabytes?.('with garbage')) ?? 0;
        for (let done = warm; done < times; done += 50) {
          await tab.call('cycle', Math.min(50, times - done), 'default', workers);
        }
        const afterwards = (await tab.residentMegabytes?.('with garbage')) ?? 0;
        // Chromium keeps something of each worker that was, and garbage of the last few.
        assert.ok(afterwards < before + 100, `${before} MB became ${afterwards} MB`);
      });
    }

    if (name !== 'chromium') return;

    test('a page that is not a secure context', { skip: onlyInAll }, async () => {
      const front = await forward(servers.plain.origin);
      try {
        await tab.open(front.origin.replace('127.0.0.1', 'insecure.test') + PAGE);
        assert.equal(await tab.call('isSecure'), false);
        const { results } = await tab.call('embedFromSources');
        assert.ok(results.every((/** @type {string} */ rows) => rows === results[0]));
        await tab.call('runCase', 'a worker throws at work');
      } finally {
        await tab.open(servers.plain.origin + PAGE);
        await front.close();
      }
    });

    // Beside the model and the workers' memory 2 to 10 MB come; with one copy of the model for the
    // page, and in a plain page one for each worker, it was 30 to 60.
    for (const kind of /** @type {const} */ (['plain', 'isolated'])) {
      test(
        `${kind} page: loading leaves no copies of the model behind`,
        { skip: onlyInAll },
        async () => {
          const resident = /** @type {NonNullable<typeof tab.residentMegabytes>} */ (
            tab.residentMegabytes
          );
          await tab.open(servers[kind].origin + PAGE);
          await tab.call('cycle', 20); // what the browser itself needs
          const before = await resident();
          const { memoryBytes } = await tab.call('embedMany', 0, 0);
          const held = memoryBytes / 1e6;
          // A browser that has little time gives memory back later; copies that are garbage would stay.
          let added = (await resident('with garbage')) - before;
          for (let i = 0; i < 40 && added >= held + 20; i++) {
            await new Promise((done) => setTimeout(done, 250));
            added = (await resident('with garbage')) - before;
          }
          await tab.call('closeMany');
          assert.ok(added < held + 20, `${added} MB, where ${held} MB are held`);
        },
      );
    }

    // Chromium itself keeps 0.4 MB of each worker that was, up to some 600 of them, and then no more
    // (measured over 800). One that is left running holds several megabytes.
    test('200 times load, embed, close: flat, no worker left', { skip: onlyInAll }, async () => {
      const resident = /** @type {() => Promise<number>} */ (tab.residentMegabytes);
      await tab.open(servers.plain.origin + PAGE);
      await tab.call('cycle', 50);
      const before = await resident();
      await tab.call('cycle', 150);
      const afterwards = await resident();
      assert.ok(afterwards < before + 100, `${before} MB became ${afterwards} MB`);
      assert.equal(tab.countWorkers?.(), 0);
    });

    test(
      '10,000 texts through 2 workers: flat after the 2,000th',
      { skip: onlyInAll },
      async () => {
        const resident = /** @type {() => Promise<number>} */ (tab.residentMegabytes);
        await tab.open(servers.plain.origin + PAGE);
        const settled = await tab.call('embedMany', 0, 2000);
        const before = await resident();
        const ended = await tab.call('embedMany', 2000, 10_000);
        const afterwards = await resident();
        await tab.call('closeMany');
        assert.equal(ended.texts, 10_000);
        const grown = ended.memoryBytes - settled.memoryBytes;
        assert.ok(grown < 4e6, `${settled.memoryBytes} became ${ended.memoryBytes}`);
        assert.ok(afterwards < before + 40, `${before} MB became ${afterwards} MB`);
      },
    );
  });
}

test(
  'chromium: a model is read to its end while garbage is collected',
  {
    skip: noTool('chromium'),
  },
  async () => {
    const server = await serve();
    const tab = await launch.chromium(['--js-flags=--expose-gc']);
    try {
      await tab.open(server.origin + PAGE);
      assert.equal(await tab.call('loadAmongGarbage', 5), 5);
    } finally {
      await tab.close();
      await server.close();
    }
  },
);
