// SPDX-License-Identifier: Apache-2.0
// Whom wisp serve answers: programs, pages of this machine, and those that it is told of.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { ask, env, serve, skip } from './serve-program.mjs';
import { PROGRAM } from './support.mjs';

/** @typedef {import('./serve-program.mjs').Server} Server */

describe('wisp serve and pages', { skip }, () => {
  /** Posts a text as a page of an origin does, without asking before. */
  const from = (
    /** @type {Server} */ server,
    /** @type {string | undefined} */ origin,
    /** @type {string | null} */ host = 'localhost',
  ) => {
    const lines = [
      'POST /embed HTTP/1.1',
      'Connection: close',
      'Content-Type: text/plain',
      'Content-Length: 14',
    ];
    if (host !== null) lines.push(`Host: ${host}`);
    if (origin !== undefined) lines.push(`Origin: ${origin}`);
    return ask(server, `${lines.join('\r\n')}\r\n\r\n{"inputs":"a"}`);
  };

  test('a server that only this machine reaches answers its own pages and programs', async (t) => {
    const server = await serve(['--log']);
    t.after(server.stop);
    const port = server.port;
    for (const [host, origin] of /** @type {[string, string | undefined][]} */ ([
      ['localhost', undefined],
      [`LOCALHOST:${port}`, undefined],
      [`127.0.0.1:${port}`, undefined],
      ['127.8.9.10', undefined],
      [`[::1]:${port}`, undefined],
      ['chat.localhost', undefined],
      ['localhost', 'http://localhost:5173'],
      ['localhost', 'https://127.0.0.1'],
      [`localhost:${port}`, `http://localhost:${port}`],
      ['localhost', 'http://[::1]:3000'],
    ])) {
      const { status, allowed } = await from(server, origin, host);
      assert.deepEqual([status, allowed], [200, origin], `${host} ${origin}`);
    }
    for (const host of [
      null,
      'evil.example',
      `evil.example:${port}`,
      '127.evil.example',
      'localhost.evil.example',
      'notlocalhost',
      '192.168.0.1',
      '0.0.0.0',
    ]) {
      const { status, reply } = await from(server, undefined, host);
      assert.equal(status, 403, reply);
      assert.match(reply, /start it with --allow-host/);
    }
    for (const origin of [
      'https://evil.example',
      'http://localhost.evil.example',
      'http://127.0.0.1.evil.example:80',
      'http://evil.example@localhost.example',
      'null',
      'file://',
      'chrome-extension://abc',
      'localhost',
      `http://${'a'.repeat(300)}`,
    ]) {
      const { status, allowed, reply } = await from(server, origin);
      assert.deepEqual([status, allowed], [403, undefined], origin);
      assert.match(reply, /start it with --allow-origin/);
      assert.match(reply, /"param":"Origin"/);
    }
    // Nobody is allowed by the library either, which would let all pages do everything.
    const preflight = (/** @type {string} */ origin) =>
      ask(
        server,
        'OPTIONS /embed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n' +
          `Origin: ${origin}\r\nAccess-Control-Request-Method: POST\r\n` +
          'Access-Control-Request-Headers: authorization,content-type\r\n\r\n',
      );
    const refused = await preflight('https://evil.example');
    assert.deepEqual([refused.status, refused.allowed], [403, undefined]);
    const taken = await preflight('http://localhost:5173');
    assert.deepEqual([taken.status, taken.allowed], [200, 'http://localhost:5173']);
    assert.match(taken.reply, /^access-control-allow-headers: \*, authorization\r$/im);
    assert.equal(await server.stop(), 0);
    const log = server
      .log()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line).status);
    assert.ok(log.includes(403) && log.includes(200), 'what is refused is logged');
  });

  test('--allow-origin and --allow-host let others in, and no more', async (t) => {
    const server = await serve([
      ...['--allow-origin', 'https://chat.example', '--allow-origin', 'null'],
      ...['--allow-host', 'models.example'],
    ]);
    t.after(server.stop);
    for (const [origin, host, wanted] of /** @type {[string | undefined, string, number][]} */ ([
      ['https://chat.example', 'localhost', 200],
      ['null', 'localhost', 200],
      ['https://chat.example:444', 'localhost', 403],
      ['http://chat.example', 'localhost', 403],
      [undefined, 'models.example:8443', 200],
      ['https://models.example', 'models.example', 200], // a page that the proxy serves
      [undefined, 'other.example', 403],
    ])) {
      const { status, allowed } = await from(server, origin, host);
      assert.equal(status, wanted, `${origin} ${host}`);
      assert.equal(allowed, wanted === 200 ? origin : undefined);
    }
    const all = await serve(['--allow-origin', '*', '--allow-host', '*']);
    t.after(all.stop);
    const { status, allowed } = await from(all, 'https://any.example', 'any.example');
    assert.deepEqual([status, allowed], [200, 'https://any.example']);
  });

  test('a server that others reach has names that it does not know, and pages of its own', async (t) => {
    const server = await serve(['--address', '0.0.0.0']);
    t.after(server.stop);
    assert.equal((await from(server, undefined, 'box.example')).status, 200);
    assert.equal((await from(server, 'http://box.example', 'box.example')).status, 200);
    assert.equal((await from(server, 'http://evil.example', 'box.example')).status, 403);
  });

  test('what is not an origin and no host is wrong use', () => {
    for (const args of [
      ['--allow-origin', 'chat.example'],
      ['--allow-origin', 'https://chat.example/page'],
      ['--allow-origin', ''],
      ['--allow-host', 'models.example:80'],
      ['--allow-host', 'http://models.example'],
      Array(33).fill(['--allow-host', 'a']).flat(),
    ]) {
      const done = spawnSync(PROGRAM, ['serve', '--port', '0', ...args], {
        env,
        encoding: 'utf8',
      });
      assert.deepEqual([done.status, done.stdout], [2, ''], args.join(' '));
      assert.match(done.stderr, /--allow-(host|origin): /);
    }
  });
});
