// SPDX-License-Identifier: Apache-2.0
// Servers that mean harm, or answer nonsense: what they get to see, how long they are waited for, and what the errors say.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { limits } from '../../js/files/silence.js';
import { readChecked, request } from '../../js/files/source.js';
import { deleteCached, fromHub, listCached } from '../../js/hub/hub-node.js';
import { HttpFile } from '../../js/ranges/cold-http.js';
import { WispError } from '../../js/base/errors.js';
import { makeCertificate } from './certificate.mjs';
import { FOLDER, cacheDir, fail, get, hub, model } from './hub-home.mjs';

const TOKEN = 'hf_SecretOfTheUser';
const before0 = { ...limits };
after(() => void Object.assign(limits, before0));

/**
 * Starts a server for the time of the test.
 * @param {import('node:test').TestContext} context
 * @param {import('node:http').RequestListener} answer
 * @param {{ key: string, cert: string }} [certificate]
 */
async function serve(context, answer, certificate) {
  const server = certificate ? createSecureServer(certificate, answer) : createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return `http${certificate ? 's' : ''}://127.0.0.1:${port}`;
}

/** @param {Promise<unknown>} promise @returns {Promise<WispError>} */
async function errorOf(promise) {
  const error = await promise.then(
    () => assert.fail('it works'),
    (caught) => caught,
  );
  assert.ok(error instanceof WispError, String(error.stack));
  for (let at = /** @type {any} */ (error); at; at = at.cause) {
    assert.ok(!String(at.message).includes(TOKEN), at.message);
    assert.ok(!String(at.message).includes('pa55'), at.message);
  }
  return error;
}

describe('tokens', () => {
  before(() => (process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'));
  after(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED);

  test('go to no other origin, and nowhere without encryption', async (context) => {
    /** @type {(string | undefined)[]} */
    const seen = [];
    const open = await serve(context, ({ headers }, response) => {
      seen.push(headers.authorization);
      response.writeHead(404).end();
    });
    for (const method of ['HEAD', 'GET']) {
      for (const certificate of [makeCertificate(), undefined]) {
        /** @type {(string | undefined)[]} */
        const given = [];
        const endpoint = await serve(
          context,
          ({ url, headers }, response) => {
            given.push(headers.authorization);
            response.writeHead(302, { Location: `${open}${url}` }).end();
          },
          certificate,
        );
        seen.length = 0;
        // With a file its state is asked for first, by HEAD; without one the list of files, by GET.
        const name = method === 'HEAD' ? 'o/m/m.gguf' : 'o/m';
        const error = await errorOf(fromHub(name, { endpoint, token: TOKEN, cacheDir }));
        assert.deepEqual(new Set(given), new Set([`Bearer ${TOKEN}`]));
        assert.deepEqual(
          seen.filter((header) => header !== undefined),
          [],
        );
        if (certificate) assert.match(error.message, /which is not encrypted/);
        if (certificate && method === 'HEAD') assert.equal(seen.length, 0);
      }
    }
  });

  test('are in no error', async (context) => {
    for (const token of [`${TOKEN}\r\nX: y`, `${TOKEN} `, `${TOKEN}\0`, `${TOKEN}é`]) {
      const error = await errorOf(fromHub('o/m', { endpoint: hub.origin, token, cacheDir }));
      assert.deepEqual([error.code, error.field], ['argument', 'token']);
    }
    const endpoint = await serve(context, ({ headers }, response) => {
      response.writeHead(403, { 'X-Error-Message': `no access: ${headers.authorization}` }).end();
    });
    const error = await errorOf(fromHub('o/m', { endpoint, token: TOKEN, cacheDir }));
    assert.match(error.message, /no access: Bearer \(token\)/);
    const named = await errorOf(
      fromHub('o/m', { endpoint: 'http://user:pa55@127.0.0.1:1', token: TOKEN, cacheDir }),
    );
    assert.equal(named.code, 'argument');
  });
});

describe('answers of no hub', () => {
  test('are typed errors', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    const location = (/** @type {string} */ to) => ({ status: 302, headers: { Location: to } });
    const state = { 'X-Repo-Commit': 'a'.repeat(40), ETag: '"b"' };
    /** @type {{ status?: number, headers?: any, body?: string }[]} */
    const answers = [
      ...['http://[', 'ftp://x/y', 'http://user:pa55@127.0.0.1/x', 'file:///etc/passwd'].map(
        location,
      ),
      ...['a/b', '..', '../../x', 'a\\b', 'CON:'].flatMap((name) => [
        { headers: { ...state, ETag: `"${name}"` } },
        { headers: { ...state, 'X-Repo-Commit': name } },
      ]),
      ...[null, 1, '[]', '{}', '{"sha": 5, "siblings": []}', '{"sha": "a/b", "siblings": []}'].map(
        (text) => ({ body: String(text) }),
      ),
    ];
    for (const { status = 200, headers = {}, body = '' } of answers) {
      hub.fault = (_, response) => void response.writeHead(status, headers).end(body);
      for (const name of ['o/m/m.gguf', 'o/m']) {
        const { code } = await errorOf(get(name));
        assert.ok(/^(io|format|not_found)$/.test(code), `${code}: ${JSON.stringify(headers)}`);
      }
    }
    hub.fault = undefined;
  });

  test('entries of a list that are none cost no other', async () => {
    const commit = hub.commit('o/m', { 'm.gguf': model });
    const odd = [null, 5, 'x', [], {}, { rfilename: 7 }, { rfilename: 'a.txt', size: -1, lfs: 3 }];
    hub.fault = (request, response, next) => {
      if (!request.url?.startsWith('/api/')) return next();
      const siblings = [...odd, { rfilename: 'm.gguf', size: 'many', lfs: null }];
      response.writeHead(200).end(JSON.stringify({ sha: commit, siblings }));
    };
    await get('o/m');
    hub.fault = undefined;
  });

  test('a cache with links that lead to themselves', async () => {
    const folder = join(cacheDir, FOLDER, 'snapshots', 'c'.repeat(40));
    mkdirSync(folder, { recursive: true });
    symlinkSync('loop.gguf', join(folder, 'loop.gguf'));
    hub.commit('o/m', { 'm.gguf': model });
    const path = await get('o/m');
    const models = await listCached({ cacheDir });
    assert.deepEqual(
      models.map(({ source }) => source),
      [path],
    );
    const looped = join(cacheDir, 'loop');
    symlinkSync('loop', looped);
    const { code } = await fail('o/m', { cacheDir: looped });
    assert.equal(code, 'io');
    assert.deepEqual(await listCached({ cacheDir: looped }), []);
    await deleteCached('o/m', { cacheDir });
  });
});

describe('silence and bodies without an end', () => {
  const { signal } = new AbortController();
  const reading = { signal, progress() {} };

  test('a whole model: before the headers, and within the body', async (context) => {
    limits.silence = 200;
    const origin = await serve(context, ({ url }, response) => {
      if (url === '/silent') return;
      response.writeHead(200, { 'Content-Length': 1000 }).write('GGUF');
    });
    const silent = await errorOf(request(`${origin}/silent`, signal));
    assert.match(silent.message, /0 bytes have come, 0 in the last 200 ms/);
    const response = await request(`${origin}/body`, signal);
    const halted = await errorOf(
      readChecked(response.body, 1000, 'x', /** @type {any} */ (reading), () => {}),
    );
    assert.equal(halted.code, 'io');
    assert.match(halted.message, /4 bytes have come, \d in the last 200 ms/);
    Object.assign(limits, before0);
  });

  test('a download of the hub', async () => {
    limits.silence = 100;
    hub.commit('o/m', { 'm.gguf': model });
    hub.fault = (incoming, response, next) =>
      incoming.url?.startsWith('/blobs/')
        ? void response.writeHead(200, { 'Content-Length': model.length }).flushHeaders()
        : next();
    const error = await fail('o/m');
    assert.equal(error.code, 'io');
    assert.match(error.message, /bytes have come, 0 in the last 100 ms/);
    hub.fault = undefined;
    Object.assign(limits, before0);
    await get('o/m');
  });

  test('a body that never ends, and does not say how long it is', async (context) => {
    limits.endless = 1 << 20;
    limits.endlessOnDisk = 1 << 21;
    let isOpen = false;
    const endless = (/** @type {import('node:http').ServerResponse} */ response) => {
      isOpen = true;
      response.on('close', () => (isOpen = false));
      const more = () => {
        while (isOpen && response.write(Buffer.alloc(65_536, 'GGUF')));
        if (isOpen) response.once('drain', more);
      };
      more();
    };
    const origin = await serve(context, (_, response) => endless(response.writeHead(200)));
    const response = await request(origin, signal);
    const error = await errorOf(
      readChecked(response.body, undefined, 'x', /** @type {any} */ (reading), () => {}),
    );
    assert.match(error.message, /more than 1048576 bytes came, and the server does not say/);
    while (isOpen) await new Promise(setImmediate);
    hub.commit('o/m', { 'm.gguf': model });
    hub.fault = (incoming, outgoing, next) => {
      if (incoming.url?.startsWith('/api/')) return next();
      if (incoming.method === 'GET') return endless(outgoing.writeHead(200));
      const headers = { 'X-Repo-Commit': 'd'.repeat(40), ETag: '"endless"' };
      outgoing.writeHead(200, headers).end();
    };
    assert.match((await fail('o/m/m.gguf')).message, /more than 2097152 bytes came/);
    hub.fault = undefined;
    Object.assign(limits, before0);
  });

  test('a range whose answer is said to go on is not waited for', async (context) => {
    const bytes = Buffer.alloc(2000, 7);
    const { createServer: createSocketServer } = await import('node:net');
    const server = createSocketServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (asked) => {
        const [, start, last] = /range: bytes=(\d+)-(\d+)/i.exec(String(asked)) ?? [];
        socket.write(
          `HTTP/1.1 206 OK\r\nContent-Range: bytes ${start}-${last}/2000\r\nETag: "a"\r\n` +
            'Content-Length: 9007199254740993\r\n\r\n',
        );
        socket.write(bytes.subarray(Number(start), Number(last) + 1));
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    context.after(() => server.close());
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
    const file = new HttpFile(`http://127.0.0.1:${port}/`, 60_000);
    let came = 0;
    const into = { write: (/** @type {number} */ _, /** @type {Uint8Array} */ part) => void (came += part.length), mark() {} }; // prettier-ignore
    await file.read([100, 600], /** @type {any} */ (into), signal);
    assert.equal(came, 500);
  });
});
