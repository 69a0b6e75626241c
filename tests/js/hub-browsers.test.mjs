// SPDX-License-Identifier: Apache-2.0
// Models by name and URL in real browsers, which keep them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, describe, test } from 'node:test';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { breakingOff, serveHub, sha256 } from './hub-server.mjs';
import { splitFiles } from './split-model.mjs';
import { noTool, onlyInAll, smallModel } from './support.mjs';

const small = readFileSync(smallModel());
const PART = 8 * 1024 * 1024;
/** Begins as a model does, and has two parts. */
const large = Buffer.concat([small, Buffer.alloc(PART, 7)]);
const PAGE = '/hub.html';

/** @param {string} path */
const page = (path) =>
  path === PAGE ? { body: '<!doctype html><link rel="icon" href="data:,">' } : undefined;

for (const browser of ['chromium', 'firefox']) {
  const inOneBrowser = browser === 'chromium' ? false : onlyInAll;
  describe(`models by name in ${browser}`, { skip: inOneBrowser || noTool(browser) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Awaited<ReturnType<typeof serve>>} */
    let server;
    /** @type {import('./hub-server.mjs').Hub} */
    let hub;
    before(async () => {
      [server, hub, tab] = await Promise.all([
        serve({ page, more: { 'Access-Control-Allow-Origin': '*' } }),
        serveHub(),
        launch[browser](),
      ]);
    });
    after(async () => {
      await tab.close();
      await Promise.all([server.close(), hub.close()]);
    });
    const reload = () => tab.open(server.origin + PAGE);
    beforeEach(async () => {
      hub.fault = hub.token = undefined;
      hub.headers = { 'Cache-Control': 'no-store', Vary: '*' };
      await reload();
      await tab.call('deleteNamed');
      hub.forget();
    });

    /** @param {string} name @param {any} [options] */
    const get = (name, options) =>
      tab.call('loadNamed', 'fromHub', name, { endpoint: hub.origin, ...options });

    /** @param {Buffer} bytes */
    const result = (bytes) => ({ size: bytes.length, hash: sha256(bytes), last: bytes.length });

    test('after a reload only the name is asked for, whatever headers the server sends', async () => {
      const commit = hub.commit('o/m', { 'm.gguf': small });
      const found = await tab.call('embedNamed', 'hf:o/m', hub.origin);
      assert.equal(found.values, 24);
      assert.equal(found.modelBytes, small.length);
      assert.equal(found.last, small.length);
      assert.ok(found.isRising);
      const without = await tab.call('loadWithoutHub');
      assert.equal(without.code, 'argument');
      assert.match(without.message, /^source: import 'wisp-engine\/hub'$/);
      hub.forget();
      await reload();
      assert.deepEqual(await tab.call('embedNamed', 'hf:o/m', hub.origin), found);
      assert.deepEqual(hub.asked, ['GET /api/models/o/m/revision/main']);
      hub.forget();
      await get(`o/m@${commit}/m.gguf`);
      assert.ok(hub.asked.some((line) => line.startsWith('GET /blobs/'))); // another server
      hub.forget();
      assert.deepEqual(await get(`o/m@${commit}/m.gguf`), result(small));
      assert.deepEqual(hub.asked, []);
    });

    test('the files of a model are joined, by name and by URL, and are one model in the store', async () => {
      const files = splitFiles(small, 3);
      const [first, second] = Object.keys(files);
      const commit = hub.commit('o/m', files);
      const found = await tab.call('embedNamed', 'hf:o/m', hub.origin);
      assert.equal(found.values, 24);
      assert.equal(found.modelBytes, small.length);
      assert.equal((await get('o/m')).hash, sha256(small));
      hub.fault = (_, response) => void response.destroy();
      assert.equal((await get('o/m')).hash, sha256(small));
      hub.fault = undefined;
      const name = `hf:o/m@${commit}/${first}`;
      const bytes = Object.values(files).reduce((sum, { length }) => sum + length, 0);
      const [kept, ...others] = await tab.call('listNamed');
      assert.deepEqual(others, []);
      assert.deepEqual([kept.name, kept.bytes, kept.complete], [name, bytes, true]);
      assert.ok((await tab.call('deleteNamed', name)) >= bytes);
      const url = `${hub.origin}/o/m/resolve/main/${first}`;
      assert.equal((await tab.call('loadNamed', 'fromUrl', url)).hash, sha256(small));
      assert.equal((await tab.call('embedNamed', url, hub.origin)).modelBytes, small.length);
      const later = await get(`o/m/${second}`);
      assert.equal(later.code, 'argument');
      assert.match(later.message, /part 2 of the 3 files of a model: name the first/);
    });

    test('files of two states are not joined', async () => {
      const other = { ...splitFiles(small, 2, 'o'), ...splitFiles(small, 2) };
      const [first, second] = Object.keys(splitFiles(small, 2));
      const changed = { ...other, [first]: Buffer.concat([other[first], Buffer.from('x')]) };
      const url = `${hub.origin}/o/m/resolve/main/${first}`;
      hub.commit('o/m', other);
      assert.equal((await get(`o/m/${first}`)).hash, sha256(small));
      assert.equal((await tab.call('loadNamed', 'fromUrl', url)).hash, sha256(small));
      hub.commit('o/m', changed);
      hub.fault = ({ url: asked }, response, next) =>
        asked?.includes(second) ? void response.writeHead(503).end() : next();
      for (const load of [() => get(`o/m/${first}`), () => tab.call('loadNamed', 'fromUrl', url)]) {
        const failed = await load();
        assert.equal(failed.code, 'io', JSON.stringify(failed));
        assert.match(failed.message, /503/);
      }
      hub.fault = (_, response) => void response.destroy();
      const failed = await get(`o/m/${first}`);
      assert.equal(failed.code, 'io', JSON.stringify(failed));
    });

    test('what is kept serves offline, by every name it was loaded under', async () => {
      hub.commit('o/m', { 'm.gguf': small });
      assert.deepEqual(await get('o/m'), result(small));
      await reload();
      hub.fault = (_, response) => void response.destroy();
      assert.deepEqual(await get('o/m'), result(small));
      assert.deepEqual(await get('o/m/m.gguf', { offline: true }), result(small));
      const missing = await get('o/m@v2', { offline: true });
      assert.equal(missing.code, 'not_found');
      assert.match(missing.message, /not in this browser's store.*load it once with a connection/);
      assert.match((await get('o/other')).message, /cannot reach http/);
      hub.fault = (_, response) => void response.writeHead(403).end();
      assert.match((await get('o/m')).message, /HTTP 403/);
    });

    test('a branch that moves: the new model comes, and the old one goes', async () => {
      hub.commit('o/m', { 'm.gguf': large });
      assert.deepEqual(await get('o/m'), result(large));
      const second = hub.commit('o/m', { 'm.gguf': small });
      assert.deepEqual(await get('o/m'), result(small));
      const about = { name: `hf:o/m@${second}/m.gguf`, bytes: small.length, complete: true };
      assert.deepEqual(await tab.call('listNamed'), [about]);
      // One that was asked for by its commit stays.
      assert.deepEqual(await get(`o/m@${second}`), result(small));
      hub.commit('o/m', { 'm.gguf': large });
      assert.deepEqual(await get('o/m'), result(large));
      assert.equal((await tab.call('listNamed')).length, 2);
      assert.equal((await tab.call('deleteNamed', about.name)) > small.length, true);
      assert.equal((await tab.call('listNamed')).length, 1);
      assert.ok((await tab.call('deleteNamed', 'o/m')) > large.length);
      assert.deepEqual(await tab.call('listNamed'), []);
    });

    test('a transfer that breaks off goes on, in this page and after a reload', async () => {
      hub.commit('o/m', { 'm.gguf': large });
      const ends = PART + 50_000;
      /** @type {import('./hub-server.mjs').Response} */
      let open;
      hub.fault = (request, response, next) => {
        if (request.url === '/told') {
          open.destroy(); // a browser may forget what the page has not read when the connection ends
          return void response.writeHead(204).end();
        }
        if (!request.url?.startsWith('/blobs/')) return next();
        const from = Number(/\d+/.exec(request.headers.range ?? '')?.[0] ?? 0);
        if (from >= ends) return void response.writeHead(503, { 'Retry-After': '9999' }).end();
        response.writeHead(from > 0 ? 206 : 200, {
          'Content-Length': large.length - from,
          'Content-Range': `bytes ${from}-${large.length - 1}/${large.length}`,
        });
        response.write(large.subarray(from, ends));
        open = response;
      };
      const failed = await get('o/m', { tellAt: ends });
      assert.equal(failed.code, 'io', failed.message);
      assert.match(failed.message, /HTTP 503/);
      const [partial] = await tab.call('listNamed');
      assert.deepEqual([partial.bytes, partial.complete], [PART, false]);
      await reload();
      hub.fault = undefined;
      hub.forget();
      assert.deepEqual(await get('o/m'), result(large));
      const transfers = hub.asked.filter((line) => line.startsWith('GET /blobs/'));
      assert.match(transfers[0], new RegExp(`bytes=${PART}-$`));
      const [whole] = await tab.call('listNamed');
      assert.deepEqual([whole.bytes, whole.complete], [large.length, true]);
    });

    test('a transfer that never goes on is named', async () => {
      hub.commit('o/m', { 'm.gguf': large });
      hub.fault = breakingOff(large.length);
      const failed = await get('o/m');
      assert.equal(failed.code, 'io', failed.message);
      assert.match(failed.message, /cannot reach|the transfer ends after 0 of \d+ bytes/);
    });

    test('an aborted download rejects at once, and what is wrong is not kept', async () => {
      hub.commit('o/m', { 'm.gguf': large });
      const aborted = await get('o/m', { abortAt: 1 });
      assert.deepEqual([aborted.name, aborted.code], ['AbortError', 'cancelled']);
      hub.forget();
      assert.equal((await get('o/m', { throws: true })).message, 'mine');
      assert.equal(hub.asked.filter((line) => line.startsWith('GET /blobs/')).length, 1);
      /** @param {Buffer | string} body */
      const send = (body) => {
        hub.fault = (request, response, next) =>
          request.url?.startsWith('/blobs/') ? void response.writeHead(200).end(body) : next();
      };
      const flipped = Buffer.from(large);
      flipped[5000] ^= 1;
      send(flipped);
      assert.match((await get('o/m')).message, /SHA-256 of the downloaded bytes is/);
      send('<!doctype html>');
      assert.match((await get('o/m')).message, /is an HTML page/);
      send(Buffer.concat([large, large]));
      assert.match((await get('o/m')).message, /bytes came, not/);
      assert.deepEqual(await tab.call('listNamed'), []);
      hub.fault = undefined;
      assert.deepEqual(await get('o/m'), result(large));
    });

    test('without room the model is loaded all the same', async () => {
      hub.commit('o/m', { 'm.gguf': large });
      await tab.call('fillDisk', 1);
      assert.deepEqual(await get('o/m'), result(large));
      assert.ok(
        (await tab.call('listNamed')).every((/** @type {any} */ { complete }) => !complete),
      );
      await reload();
      hub.forget();
      assert.deepEqual(await get('o/m'), result(large));
      assert.ok(hub.asked.some((line) => line.endsWith(` bytes=${PART}-`)));
    });

    test('without the Cache API, IndexedDB keeps it', async () => {
      hub.commit('o/m', { 'm.gguf': large });
      await tab.call('withoutCaches');
      assert.deepEqual(await get('o/m'), result(large));
      await reload();
      await tab.call('withoutCaches');
      hub.forget();
      assert.deepEqual(await get('o/m'), result(large));
      assert.deepEqual(hub.asked, ['GET /api/models/o/m/revision/main']);
      assert.equal((await tab.call('listNamed')).length, 1);
      assert.ok((await tab.call('deleteNamed')) > large.length);
      assert.deepEqual(await tab.call('listNamed'), []);
    });

    test('a sandboxed frame, which can store nothing, loads all the same', async () => {
      hub.commit('o/m', { 'm.gguf': small });
      const found = await tab.call('loadSandboxed', 'o/m', hub.origin);
      assert.deepEqual(found, { size: small.length, kept: 0 });
    });

    test('a token is sent to the Hub alone', async () => {
      hub.commit('o/m', { 'm.gguf': small });
      hub.token = 'secret';
      assert.match((await get('o/m')).message, /HTTP 401.*gated/);
      assert.deepEqual(await get('o/m', { token: 'secret' }), result(small));
      const transfer = hub.requests.find(
        ({ url, method }) => method === 'GET' && url.startsWith('/blobs/'),
      );
      assert.equal(transfer?.headers.authorization, undefined);
    });

    test('a URL: only its state is asked for; a new state brings the new file', async () => {
      hub.commit('o/m', { 'm.bin': small });
      const url = `${hub.origin}/o/m/resolve/main/m.bin`;
      const load = () => tab.call('loadNamed', 'fromUrl', url);
      hub.headers = { 'Access-Control-Expose-Headers': 'ETag', 'Cache-Control': 'no-store' };
      hub.fault = (_, response, next) => {
        response.setHeader('Access-Control-Expose-Headers', 'ETag');
        next();
      };
      assert.deepEqual(await load(), result(small));
      await reload();
      hub.forget();
      assert.deepEqual(await load(), result(small));
      assert.deepEqual(hub.asked, ['HEAD /o/m/resolve/main/m.bin']);
      hub.commit('o/m', { 'm.bin': large });
      assert.deepEqual(await load(), result(large));
      assert.deepEqual(await tab.call('listNamed'), [
        { name: url, bytes: large.length, complete: true },
      ]);
      hub.fault = (_, response) => void response.destroy();
      assert.deepEqual(await load(), result(large));
      hub.fault = (_, response) => void response.writeHead(404).end();
      assert.equal((await load()).code, 'not_found');
      // A server that says nothing of its files: the kept one is taken.
      hub.fault = (request, response) =>
        void response.writeHead(200).end(request.method === 'HEAD' ? undefined : small);
      assert.deepEqual(await load(), result(large));
      await tab.call('deleteNamed', url);
      assert.deepEqual(await load(), result(small));
      assert.deepEqual(await load(), result(small));
      assert.equal((await tab.call('loadNamed', 'fromUrl', 'data:,x')).code, 'argument');
    });
  });
}
