// SPDX-License-Identifier: Apache-2.0
// --upstream of wisp serve and of wisp-engine serve: another server gets other models and other routes.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ask, post, serve as serveNative, skip, started } from './serve-program.mjs';
import { ROOT, wisp } from './support.mjs';

/** @typedef {import('./serve-program.mjs').Server} Server */

const CLI = `${ROOT}js/cli.js`;
const folder = mkdtempSync(join(tmpdir(), 'wisp-upstream-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {Record<string, string>} env */
const serveNode = (args = [], env = {}) =>
  started(process.execPath, [CLI, 'serve', '--port', '0', '-t', '1', ...args], { ...process.env, ...env }); // prettier-ignore

/** A server that keeps what it is asked, and answers a stream. */
async function other() {
  /** @type {{ path: string | undefined, key: unknown, body: any }[]} */
  const asked = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    const { authorization, 'x-api-key': other } = request.headers;
    asked.push({ path: request.url, key: authorization ?? other, body: JSON.parse(body) });
    if (request.url === '/moved') return void response.writeHead(301, { Location: '/' }).end();
    const status = request.url === '/v1/nothing' ? 404 : 200;
    response.writeHead(status, { 'Content-Type': 'text/event-stream', 'Retry-After': '7' });
    response.write('data: 1\n\n');
    setTimeout(() => response.end('data: 2\n\n'), 20);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const stop = () => (server.close(), server.closeAllConnections());
  return { url: `http://127.0.0.1:${port}`, asked, stop };
}

for (const { name, serve, isSkipped, queries } of [
  { name: 'wisp serve', serve: serveNative, isSkipped: skip, queries: false },
  { name: 'wisp-engine serve', serve: serveNode, isSkipped: false, queries: true },
])
  describe(name, { skip: isSkipped }, () => {
    test('another server gets other models and other routes', async (t) => {
      const upstream = await other();
      const file = join(folder, 'key');
      writeFileSync(file, 'here\n');
      const server = await serve(['--name', 'own', '--upstream', `${upstream.url}/v1/`, '--api-key-file', file], { WISP_UPSTREAM_KEY: 'there' }); // prettier-ignore
      t.after(async () => {
        upstream.stop();
        await server.stop();
      });
      const send = (/** @type {string} */ path, /** @type {object} */ body, key = 'here') =>
        fetch(server.url + path, { method: 'POST', body: JSON.stringify(body), headers: { authorization: `Bearer ${key}` } }); // prettier-ignore
      assert.equal((await send('/v1/embeddings', { input: 'a' }, 'wrong')).status, 401);
      assert.equal((await (await send('/v1/embeddings', { model: 'own', input: 'a' })).json()).model, 'own'); // prettier-ignore
      assert.equal(upstream.asked.length, 0);
      const larger = { model: 'larger', input: 'a' };
      const reply = await send('/v1/embeddings', larger);
      assert.equal(reply.headers.get('content-type'), 'text/event-stream');
      assert.equal(await reply.text(), 'data: 1\n\ndata: 2\n\n');
      const missing = await send('/v1/nothing', { a: 1 });
      assert.deepEqual([missing.status, missing.headers.get('retry-after')], [404, '7']);
      assert.deepEqual(upstream.asked, [
        { path: '/v1/embeddings', key: 'Bearer there', body: larger },
        { path: '/v1/nothing', key: 'Bearer there', body: { a: 1 } },
      ]);
      upstream.stop();
      const gone = await send('/v1/embeddings', larger);
      assert.equal(gone.status, 502);
      assert.match((await gone.json()).error.message, /the other server cannot be asked: /);
    });

    test('only what the user has named is asked', async (t) => {
      const upstream = await other();
      // Without a port a target that is appended could change the name of the host.
      const [below, bare] = await Promise.all([serve(['--upstream', `${upstream.url}/base/`]), serve(['--upstream', 'http://localhost'])]); // prettier-ignore
      t.after(async () => {
        upstream.stop();
        await Promise.all([below.stop(), bare.stop()]);
      });
      const send = (/** @type {Server} */ server, /** @type {string} */ target) =>
        ask(server, `POST ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}`); // prettier-ignore
      for (const target of ['/../v1/a', '/%2e%2e/v1/a', '/\\..\\..\\a', 'x://evil/', '*']) {
        const { status } = await send(below, target);
        assert.ok(![200, 502].includes(status), `${target}: ${status}`); // Node and CivetWeb refuse some themselves
      }
      for (const target of ['.example://x/', 'x://x/', '*']) {
        const { status } = await send(bare, target);
        assert.ok(![200, 502].includes(status), `${target}: ${status}`); // Node and CivetWeb refuse some themselves
      }
      assert.equal(upstream.asked.length, 0);
      const larger = { model: 'larger' };
      const init = {
        method: 'POST',
        body: JSON.stringify(larger),
        headers: { 'x-api-key': 'theirs' },
      };
      assert.equal((await fetch(`${below.url}/v1/messages?beta=true`, init)).status, 200);
      const path = `/base/v1/messages${queries ? '?beta=true' : ''}`;
      assert.deepEqual(upstream.asked, [{ path, key: 'theirs', body: larger }]); // prettier-ignore
    });

    test('a redirect of the other server is not followed', async (t) => {
      const upstream = await other();
      const server = await serve(['--upstream', upstream.url]);
      t.after(async () => {
        upstream.stop();
        await server.stop();
      });
      const { status, body } = await post(server, '/moved', {});
      assert.equal(status, 502);
      assert.match(body.error.message, /redirect/);
      assert.equal(upstream.asked.length, 1);
    });
  });

test('an address that is none is refused', { skip }, () => {
  for (const url of ['ftp://a', 'https://', 'https://user@host', 'https://host?a', 'host']) {
    const { code, err } = wisp(['serve', '--upstream', url]);
    assert.equal(code, 2, url);
    assert.match(err, /--upstream/);
  }
});

test('a reply that breaks off', { skip }, async (t) => {
  const upstream = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write('data: 1\n\n');
    setTimeout(() => response.destroy(), 50);
  });
  await new Promise((resolve) => upstream.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (upstream.address());
  const server = await serveNative(['--upstream', `http://127.0.0.1:${port}`]);
  t.after(async () => {
    upstream.close();
    await server.stop();
  });
  const reply = await fetch(`${server.url}/v1/embeddings`, { method: 'POST', body: '{"model":"larger"}' }); // prettier-ignore
  assert.match(await reply.text(), /^data: 1\n\ndata: \{"error":.*has not sent all/);
});
