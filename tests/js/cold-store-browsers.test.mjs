// SPDX-License-Identifier: Apache-2.0
// Models by range that browsers keep.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, describe, test } from 'node:test';
import { readTable } from '../../js/ranges/cold-table.js';
import { Embedder } from '../../js/node.js';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { shortTexts } from './pool/texts.mjs';
import { serveRanges } from './range-server.mjs';
import { rechunk } from './rechunk.mjs';
import { noTool, onlyInAll, smallCalibratedModel, smallColdModel } from './support.mjs';

const TEXTS = shortTexts(24, 3);
const PAGE = '/cold-store.html';

/** @param {string} path */
const page = (path) =>
  path === PAGE ? { body: '<!doctype html><link rel="icon" href="data:,">' } : undefined;

/** A model with many chunks. */
async function makeModel() {
  const file = readFileSync(smallColdModel());
  const how = { mode: /** @type {const} */ ('wait') };
  const embedder = await Embedder.load(smallColdModel(), { workers: 0, cold: how });
  const { hotBytes } = /** @type {any} */ (embedder.stats()).cold;
  await embedder.close();
  const bytes = rechunk(file, hotBytes, 4096);
  const cold = hotBytes + bytes.length - file.length;
  const table = readTable(bytes, cold, bytes.length);
  assert.ok(table);
  return { bytes, table };
}

for (const browser of ['chromium', 'firefox']) {
  const inOneBrowser = browser === 'chromium' ? false : onlyInAll;
  describe(
    `models by range that ${browser} keeps`,
    { skip: inOneBrowser || noTool(browser) },
    () => {
      /** @type {import('./browsers.mjs').Tab} */
      let tab;
      /** @type {Pick<import('./browsers.mjs').Tab, 'open' | 'call'>} */
      let other;
      /** @type {Awaited<ReturnType<typeof serve>>} */
      let site;
      /** @type {import('./range-server.mjs').RangeServer} */
      let server;
      /** @type {Awaited<ReturnType<typeof makeModel>>} */
      let model;
      let expected = '';
      before(async () => {
        [site, model, tab] = await Promise.all([serve({ page }), makeModel(), launch[browser]()]);
        server = await serveRanges(model.bytes, site.origin);
        await reload();
        expected = await tab.call('embedAll', server.url, TEXTS);
        other = await /** @type {any} */ (tab).another();
      });
      after(async () => {
        await tab.close();
        await Promise.all([server.close(), site.close()]);
      });
      const reload = () => tab.open(server.origin + PAGE);
      beforeEach(async () => {
        server.bytes = model.bytes;
        server.etag = '"one"';
        server.fault = undefined;
        await reload();
        await tab.call('deleteRanges');
        server.forget();
      });

      /** @param {any} [options] */
      const visit = (options = {}) => tab.call('visitRanges', server.url, TEXTS, options);

      function assertOnce() {
        const ranges = server.asked
          .filter((_, i) => server.headers[i]['if-none-match'] === undefined)
          .sort((a, b) => a[0] - b[0]);
        ranges.forEach(([from], i) => {
          if (i > 0) assert.ok(from > ranges[i - 1][1], `${ranges[i - 1]} and ${from}`);
        });
      }

      /** @param {any} found */
      function assertRight(found) {
        assert.equal(found.error, undefined, found.error?.message);
        assert.equal(found.rows, expected);
        return found.cold;
      }

      /** A first visit, after which the browser has all of the file. */
      async function fill() {
        const cold = assertRight(await visit({ stays: true }));
        assertOnce();
        await reload();
        server.forget();
        return cold;
      }

      test('every byte comes once; a later visit asks one question, or none', async () => {
        const { store, presentBytes, fetchedBytes, storedBytes } = await fill();
        assert.deepEqual([store, presentBytes, fetchedBytes], ['opfs', model.bytes.length, model.bytes.length]); // prettier-ignore
        assert.equal(storedBytes, model.bytes.length - model.table.start);
        assertRight(await visit({ workers: 2 }));
        assert.deepEqual(server.asked, [[0, 0]]);
        assert.equal(server.headers[0]['if-none-match'], '"one"');
        await reload();
        server.forget();
        assertRight(await visit({ cold: { immutable: true } }));
        assert.deepEqual(server.asked, []);
        const [kept, ...more] = await tab.call('listRanges');
        assert.deepEqual(more, []);
        assert.deepEqual([kept.url, kept.complete], [server.url, true]);
        // Firefox would ask its user.
        if (browser === 'chromium')
          assert.equal(typeof (await tab.call('persistRanges')), 'boolean');
        assert.equal(await tab.call('deleteRanges', server.url), model.bytes.length);
        assert.deepEqual(await tab.call('listRanges'), []);
      });

      test('a server of another origin is asked without a header that needs its permission', async () => {
        const far = await serveRanges(model.bytes);
        assertRight(await tab.call('visitRanges', far.url, TEXTS, { stays: true }));
        await reload();
        far.forget();
        assertRight(await tab.call('visitRanges', far.url, TEXTS));
        assert.deepEqual(far.asked, [[0, 0]]);
        assert.equal(far.headers[0]['if-none-match'], undefined);
        await far.close();
      });

      test('offline after a first visit; what is not there is a typed error', async () => {
        await fill();
        server.fault = (response) => void response.destroy();
        assertRight(await visit());
        await tab.call('deleteRanges');
        server.fault = undefined;
        await tab.call('visitRanges', server.url, TEXTS.slice(0, 1), { cold: { complete: false } });
        server.fault = (response) => void response.destroy();
        const { error } = await visit();
        assert.deepEqual([error.name, error.code], ['WispError', 'io'], error.message);
      });

      test('a flipped bit in what is kept: right rows, and only what is damaged comes again', async () => {
        for (const [pattern, most] of [
          ['\\d+-\\d+$', 200_000],
          ['header$', 2 * model.table.start + 8192],
          ['urls/', 2 * model.table.start + 8192],
        ]) {
          await fill();
          const flipped = await tab.call('flipRanges', pattern);
          assert.ok(flipped.length > 0);
          const { fetchedBytes } = assertRight(await visit({ stays: true }));
          assert.ok(fetchedBytes > 0 && fetchedBytes <= most, `${pattern}: ${fetchedBytes}`);
          await reload();
          server.forget();
          assertRight(await visit());
          assert.deepEqual(server.asked, [[0, 0]]);
        }
      });

      test('without room: nothing more is stored, and rows are right', async () => {
        for (const entries of [0, 1, 2, 3]) {
          await tab.call('fillStore', entries);
          const { storeError, rest, presentBytes } = assertRight(await visit({ stays: true }));
          assert.match(storeError, /no room/);
          assert.deepEqual([rest, presentBytes], ['done', model.bytes.length]);
          assertOnce();
          await reload();
          assertRight(await visit());
          await tab.call('deleteRanges');
          server.forget();
        }
      });

      test('a file that was replaced: the new one is opened, and the old chunks are deleted', async () => {
        await fill();
        const [old] = await tab.call('listRanges');
        server.bytes = readFileSync(smallCalibratedModel());
        server.etag = '"two"';
        const rows = await tab.call('embedAll', server.url, TEXTS);
        const found = await visit();
        assert.equal(found.rows, rows);
        let kept = [];
        while (kept[0]?.sha256 === old.sha256 || !kept[0]?.complete) kept = await tab.call('listRanges'); // prettier-ignore
        assert.equal(kept.length, 1);
        assert.equal(kept[0].size, server.bytes.length);
        assert.deepEqual(await tab.call('flipRanges', old.sha256), []);
      });

      test('two tabs at the same time lose nothing', async () => {
        await other.open(server.origin + PAGE);
        const all = await Promise.all(
          [tab, other].map((each) => each.call('visitRanges', server.url, TEXTS, { stays: true })),
        );
        all.forEach(assertRight);
        await reload();
        server.forget();
        const { presentBytes } = assertRight(await visit({ cold: { complete: false } }));
        assert.equal(presentBytes, model.bytes.length);
        assert.deepEqual(server.asked, [[0, 0]]);
        const [{ complete }] = await tab.call('listRanges');
        assert.equal(complete, true);
      });

      // Only Chromium is told where that host is.
      const skip = browser === 'chromium' ? false : 'no name for it';
      test(
        'a page that is not secure has no files and no hashes of the browser',
        { skip },
        async () => {
          const origin = server.origin.replace('127.0.0.1', 'insecure.test');
          const embed = async (/** @type {any} */ options) => {
            await tab.open(origin + PAGE);
            server.forget();
            return assertRight(
              await tab.call('visitRanges', `${origin}/model.gguf`, TEXTS, options),
            );
          };
          assert.equal((await embed({ stays: true })).store, 'indexeddb');
          await embed({});
          assert.deepEqual(server.asked, [[0, 0]]);
          await tab.call('deleteRanges');
        },
      );

      test('IndexedDB keeps it where there are no files, else the page', async () => {
        await tab.call('withoutStore', 'files');
        const { store } = assertRight(await visit({ stays: true }));
        assert.equal(store, 'indexeddb');
        await reload();
        await tab.call('withoutStore', 'files');
        server.forget();
        assertRight(await visit());
        assert.deepEqual(server.asked, [[0, 0]]);
        assert.equal(await tab.call('deleteRanges'), model.bytes.length);
        await tab.call('withoutStore', 'all');
        server.forget();
        assert.equal(assertRight(await visit({ stays: true })).store, 'memory');
        server.forget();
        assertRight(await visit());
        assert.deepEqual(server.asked, [[0, 0]]);
        assert.equal(await tab.call('deleteRanges'), model.bytes.length);
      });
    },
  );
}
