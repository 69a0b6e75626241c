// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index in real browsers: OPFS and IndexedDB keep the bytes that Node writes.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Index } from '../../js/index-node.js';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { noTool, onlyInAll } from './support.mjs';

for (const name of ['chromium', 'firefox']) {
  const inOneBrowser = name === 'chromium' ? false : onlyInAll;
  describe(name, { skip: inOneBrowser || noTool(name) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Awaited<ReturnType<typeof serve>>} */
    let server;
    before(async () => {
      server = await serve();
      tab = await launch[name]();
    });
    after(async () => {
      await tab.close();
      await server.close();
    });

    test('an index is saved, replaced and loaded', async () => {
      const index = await Index.create({ dimensions: 2 });
      await index.add({ id: 'old', vector: [1, 0] });
      await tab.open(`${server.origin}/tests/js/page/blank.html`);
      const { results, refused } = await tab.call('keepIndex', [
        ...new Uint8Array(index.toBytes()),
      ]);
      await index.add({ id: 'new', vector: [0, 2], metadata: { a: 1 } });
      const [best] = await index.search([0, 1], { k: 1 });
      for (const result of results) {
        assert.equal(result.absent, 'not_found');
        assert.deepEqual(result.best, best);
        assert.deepEqual(result.bytes, [...new Uint8Array(index.toBytes())]);
      }
      assert.equal(results.length, 2);
      assert.equal(refused, 'argument');
    });

    test('where there is no room, saving is an error, and what was saved stays', async () => {
      await tab.open(`${server.origin}/tests/js/page/blank.html`);
      for (const { failed, before, size } of await tab.call('fillStorage', 100)) {
        assert.deepEqual([failed, before, size], [undefined, 0, 100]);
      }
      const assertFull = (
        /** @type {any} */ { failed, before, size, inMemory },
        /** @type {RegExp} */ message,
      ) => {
        assert.equal(failed?.code, 'io', JSON.stringify(failed));
        assert.equal(failed.field, 'place');
        assert.match(failed.message, message);
        assert.deepEqual([before, size, inMemory], [100, 100, 9000]);
      };
      for (const fault of ['full', 'full or a broken pipe']) {
        for (const refused of await tab.call('fillStorage', 9000, fault)) {
          assertFull(
            refused,
            /^(opfs|indexeddb):full.*: cannot write: not enough room for \d+ bytes/,
          );
        }
      }
      if (tab.limitStorage) {
        await tab.limitStorage(1_500_000);
        const [files] = await tab.call('fillStorage', 9000); // Chromium counts large values of a database later
        assertFull(files, /^opfs:full.*: cannot write: not enough room for \d+ bytes$/);
        await tab.limitStorage();
      }
      for (const { failed, size } of await tab.call('fillStorage', 9000, 'a broken pipe')) {
        assert.deepEqual([failed, size], [undefined, 9000]);
      }
    });
  });
}
