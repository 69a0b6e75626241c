// SPDX-License-Identifier: Apache-2.0
// Hugging Face folders in real browsers: files, handles, URLs and names become the bytes of wisp convert.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { filesOf } from './convert/folders.mjs';
import { serveHub, sha256 } from './hub-server.mjs';
import { ROOT, extent, noTool, onlyInAll, wisp } from './support.mjs';

const place = mkdtempSync(join(tmpdir(), 'wisp-convert-browsers-'));
after(() => rmSync(place, { recursive: true }));

/** @param {string} name */
const folderOf = (name) => `${ROOT}tests/data/models/${name}`;

/** @param {string} name */
const pathsOf = (name) => Object.keys(filesOf(folderOf(name)));

/** @param {string} name @param {string[]} [options] the hash of what the program writes */
function expected(name, options = []) {
  const path = join(place, 'x.gguf');
  const { code, err } = wisp(['convert', ...options, folderOf(name), path]);
  assert.equal(code, 0, err);
  return sha256(readFileSync(path));
}

for (const browser of ['chromium', 'firefox']) {
  const inOneBrowser = browser === 'chromium' ? false : onlyInAll;
  describe(`conversions in ${browser}`, { skip: inOneBrowser || noTool(browser) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Awaited<ReturnType<typeof serve>>} */
    let server;
    /** @type {import('./hub-server.mjs').Hub} */
    let hub;
    const page = (/** @type {string} */ path) =>
      path === '/convert.html'
        ? { body: '<!doctype html><link rel="icon" href="data:,">' }
        : undefined;
    before(async () => {
      [server, hub, tab] = await Promise.all([serve({ page }), serveHub(), launch[browser]()]);
      await tab.open(`${server.origin}/convert.html`);
    });
    after(async () => {
      await tab.close();
      await Promise.all([server.close(), hub.close()]);
    });

    test('chosen files, an object, a directory handle and a URL have the bytes of wisp convert', async () => {
      for (const [kind, name, options] of /** @type {const} */ ([
        ['list', 'cls12', { type: 'q8_0' }],
        ['list', 'mean-shards', {}],
        ['handle', 'overridden', { type: 'f16' }],
        ['url', 'mean-shards', { type: 'q4_0' }],
        ['url', 'nomic', { neurons: true }],
        ['object', 'cls12', { type: 'f32', name: 'cls12' }],
      ])) {
        const args = Object.entries(options).flatMap(([option, value]) =>
          value === true ? [`--${option}`] : [`--${option}`, String(value)],
        );
        const found = await tab.call('convertModel', kind, name, pathsOf(name), options);
        assert.equal(found.hash, expected(name, args), `${kind} ${name} ${found.message}`);
        const phases = kind === 'url' ? ['files', 'tensors'] : ['tensors'];
        assert.deepEqual(found.phases, phases);
      }
    });

    test('a name on the Hub is fetched once', async () => {
      hub.commit('o/cls12', { ...filesOf(folderOf('cls12')), 'README.md': 'x' });
      const options = { endpoint: hub.origin };
      const found = await tab.call('convertModel', 'hf', 'cls12', [], options);
      assert.equal(found.hash, expected('cls12'), found.message);
      assert.ok(!hub.asked.some((line) => line.includes('README')));
      await tab.open(`${server.origin}/convert.html`);
      hub.forget();
      const again = await tab.call('convertModel', 'hf', 'cls12', [], options);
      assert.equal(again.hash, found.hash);
      assert.deepEqual(hub.asked, ['GET /api/models/o/cls12/revision/main']);
      hub.fault = (_, response) => void response.destroy();
      const offline = { ...options, offline: true };
      const kept = await tab.call('convertModel', 'hf', 'cls12', [], offline);
      assert.equal(kept.hash, found.hash, kept.message);
      hub.fault = undefined;
      const [model, ...others] = await tab.call('listNamed');
      assert.match(model.name, /^hf:o\/cls12@.*model\.safetensors$/);
      assert.deepEqual(others, []);
      await tab.call('deleteNamed', 'o/cls12');
      const gone = await tab.call('convertModel', 'hf', 'cls12', [], offline);
      assert.equal(gone.code, 'not_found');
    });

    test('Embedder.load takes a folder', async () => {
      hub.commit('o/prompted', filesOf(folderOf('prompted')));
      for (const kind of ['list', 'handle', 'url', 'hf']) {
        const [rows, wanted] = await tab.call('loadConverted', kind, 'prompted', pathsOf('prompted'), hub.origin); // prettier-ignore
        assert.ok(rows.length > 0);
        assert.deepEqual(rows, wanted, kind);
      }
    });

    test('what is broken or aborted is an error with its code, and the page goes on', async () => {
      const { errors, hash } = await tab.call('convertBroken', 'cls12', pathsOf('cls12'), 10);
      assert.deepEqual(errors.length, 2, errors.join('\n'));
      assert.match(errors[0], /^format model\/model\.safetensors: /);
      assert.equal(errors[1], 'AbortError cancelled');
      assert.equal(hash, expected('cls12'));
      const wrong = await tab.call('convertModel', 'object', 'cls12', pathsOf('cls12'), { type: 'q9' }); // prettier-ignore
      assert.deepEqual([wrong.code, wrong.field], ['argument', 'type']);
      const alone = await tab.call('convertWithoutWorkers', 'cls12', pathsOf('cls12'));
      assert.equal(alone.code, 'worker');
      assert.match(alone.message, /cannot start workers; a model is converted in a worker. npx/);
      const none = await tab.call('convertModel', 'url', 'no-such', []);
      assert.equal(none.code, 'not_found');
      assert.match(none.message, /no-such\/config\.json: HTTP 404/);
    });

    test(
      'memory is flat over many conversions',
      { skip: browser === 'firefox' && 'no measure' },
      async () => {
        // prettier-ignore
        const { residentMegabytes = async () => 0 } = tab;
        const paths = pathsOf('cls12');
        await tab.call('convertOften', 'cls12', paths, 20);
        const before = await residentMegabytes();
        await tab.call('convertOften', 'cls12', paths, extent('conversions', 50, 30));
        const now = await residentMegabytes();
        assert.ok(now < before + 30, `${before} MB became ${now} MB`);
      },
    );
  });
}
