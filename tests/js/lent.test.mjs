// SPDX-License-Identifier: Apache-2.0
// Models of pages: the page lends the bytes to one worker after the other and lets go of them; a worker that starts later
// reads them again.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request as ask, createServer } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { noTool, onlyInAll, smallCalibratedModel, smallModel } from './support.mjs';

const PAGE = '/tests/js/page/blank.html';

/** A page that may read files of other origins. */
const FREE = '/free.html';

smallCalibratedModel();
const MODEL = readFileSync(smallModel());

/**
 * Serves pages, and the model with the headers that a test sets.
 * @param {boolean} isolated
 */
async function servePages(isolated) {
  const pages = await serve({
    isolated,
    page: (path) => (path === FREE ? { body: '<!doctype html>' } : undefined),
  });
  const state = {
    page: '',
    url: '',
    /** @type {Record<string, string>} */
    headers: {},
    /** @type {Buffer | undefined} undefined: it is gone */
    bytes: MODEL,
    sent: 0,
    /** @param {Record<string, string>} headers of the model at a new address, which no cache has */
    renew(headers) {
      Object.assign(state, {
        url: `/lent/${state.count++}.gguf`,
        headers: { ...headers },
        bytes: MODEL,
        sent: 0,
      });
    },
    count: 0,
    async close() {
      server.closeAllConnections();
      server.close();
      await pages.close();
    },
  };
  const server = createServer((asked, response) => {
    if (!asked.url?.startsWith('/lent/')) {
      const { url, headers } = asked;
      return void ask(pages.origin + url, { headers }, (found) => {
        response.writeHead(Number(found.statusCode), found.headers);
        found.pipe(response);
      }).end();
    }
    if (asked.url.startsWith('/lent/to/')) {
      const signed = `${state.url}?signature=${state.count++}`;
      return void response.writeHead(302, { Location: signed, 'Cache-Control': 'no-store' }).end();
    }
    if (!state.bytes) return void response.writeHead(404).end();
    state.sent++;
    response.writeHead(200, { 'Content-Length': state.bytes.length, ...state.headers });
    response.end(state.bytes);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', () => done(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  state.page = `http://127.0.0.1:${port}${PAGE}`;
  return state;
}

const DATED = { 'Last-Modified': 'Mon, 02 Nov 2026 10:00:00 GMT', 'Cache-Control': 'no-cache' };

for (const name of ['chromium', 'firefox']) {
  const inOneBrowser = name === 'chromium' ? false : onlyInAll;
  describe(name, { skip: inOneBrowser || noTool(name) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    before(async () => {
      tab = await launch[name]();
    });
    after(() => tab.close());

    for (const isolated of [false, true]) {
      describe(isolated ? 'isolated page' : 'plain page', () => {
        /** @type {Awaited<ReturnType<typeof servePages>>} */
        let model;
        /** @type {string} */
        let expected;
        before(async () => {
          model = await servePages(isolated);
          await tab.open(model.page);
          model.renew(DATED);
          ({ rows: expected } = await tab.call('lendModel', model.url, { workers: 0 }));
          await tab.call('endLoan');
        });
        beforeEach(() => tab.open(model.page));
        after(() => model.close());

        for (const workers of [1, 3]) {
          test(`${workers} workers open the bytes of one request, and another those of the cache`, async () => {
            model.renew(DATED);
            const { rows, progress } = await tab.call('lendModel', model.url, { workers });
            assert.equal(rows, expected);
            assert.deepEqual(progress, {
              phase: 'model',
              loaded: MODEL.length,
              total: MODEL.length,
            });
            assert.equal(model.sent, 1);
            model.bytes = undefined;
            assert.deepEqual(await tab.call('loseWorkers'), { rows: expected });
            assert.equal(model.sent, 1);
            await tab.call('endLoan');
          });
        }

        test('a file that has changed since is an error, and no other model', async () => {
          model.renew(DATED);
          await tab.call('lendModel', model.url, { workers: 1 });
          model.headers['Last-Modified'] = 'Tue, 03 Nov 2026 10:00:00 GMT';
          await tab.call('fetchAnew', model.url);
          const { code, message } = await tab.call('loseWorkers');
          assert.equal(code, 'io');
          assert.match(message, /\.gguf has changed since the model was loaded/);
          await tab.call('endLoan');
        });

        for (const [what, headers] of /** @type {[string, Record<string, string>][]} */ ([
          ['may not be stored', { ...DATED, 'Cache-Control': 'no-store' }],
          ['has no state', {}],
        ])) {
          test(`a file that ${what} stays with the browser`, async () => {
            model.renew(headers);
            const { rows } = await tab.call('lendModel', model.url, { workers: 2 });
            assert.equal(rows, expected);
            model.bytes = undefined;
            assert.deepEqual(await tab.call('loseWorkers'), { rows: expected });
            assert.equal(model.sent, 1);
            await tab.call('endLoan');
          });
        }

        test('a file behind a redirection, which may lead elsewhere later, stays with the browser', async () => {
          model.renew(DATED);
          await tab.call('lendModel', model.url.replace('/lent/', '/lent/to/'), { workers: 1 });
          assert.equal(model.sent, 1);
          model.bytes = undefined;
          assert.deepEqual(await tab.call('loseWorkers'), { rows: expected });
          assert.equal(model.sent, 1);
          await tab.call('endLoan');
        });

        test('workers that have rested open the same file, though the server has another one', async () => {
          model.renew(DATED);
          await tab.call('lendModel', model.url, { workers: 1, idleTimeout: 50 });
          model.headers['Last-Modified'] = 'Tue, 03 Nov 2026 10:00:00 GMT';
          await tab.call('fetchAnew', model.url);
          assert.deepEqual(await tab.call('restWorkers'), { rows: expected });
          await tab.call('endLoan');
        });

        for (const workers of [1, 2]) {
          test(`${workers} workers: a server of another origin compresses, which the page is not told`, async () => {
            model.renew({
              ...DATED,
              'Content-Encoding': 'gzip',
              'Access-Control-Allow-Origin': '*',
            });
            model.bytes = gzipSync(MODEL);
            const url = new URL(model.url, model.page.replace('127.0.0.1', 'localhost')).href;
            await tab.open(new URL(FREE, model.page).href);
            const { rows } = await tab.call('lendModel', url, { workers });
            assert.equal(rows, expected);
            model.bytes = undefined;
            assert.deepEqual(await tab.call('loseWorkers'), { rows: expected });
            await tab.call('endLoan');
          });
        }

        for (const workers of [0, 1, 2]) {
          test(`${workers} workers: another predictor is packed from bytes that are read again`, async () => {
            const { found, expected: wanted } = await tab.call('changePredictor', workers);
            assert.deepEqual(found, wanted);
            assert.notEqual(found[0], found[1]);
          });
        }
      });
    }
  });
}
