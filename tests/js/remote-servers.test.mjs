// SPDX-License-Identifier: Apache-2.0
// wisp --model http://...: the same rows as with the file itself, or an error, whatever a server sends.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { makeCertificate } from './certificate.mjs';
import { rangeFaults } from './range-faults.mjs';
import {
  COLD,
  COLD_FROM,
  assertRows,
  bytes,
  bytesFetched,
  embed,
  fileOf,
  folder,
  newCache,
  noCurl,
  withServer,
} from './remote/program.mjs';

/** @typedef {import('./range-server.mjs').RangeServer} RangeServer */
/** @typedef {NonNullable<RangeServer['fault']>} Fault */

/**
 * Answers a request by that of a server, or with the first bytes of it before the connection breaks.
 * @param {RangeServer} server
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 * @param {number} [length]
 */
async function pass(server, request, response, length) {
  const answer = await fetch(server.url, { headers: { range: String(request.headers.range) } });
  const body = Buffer.from(await answer.arrayBuffer());
  for (const name of ['etag', 'content-range']) {
    response.setHeader(name, String(answer.headers.get(name)));
  }
  response.writeHead(answer.status);
  if (length) response.write(body.subarray(0, length), () => response.destroy());
  else response.end(body);
}

/** @param {import('node:http').Server} front @param {(port: number) => Promise<void>} body */
async function withFront(front, body) {
  await new Promise((resolve) => front.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (front.address());
  try {
    await body(port);
  } finally {
    front.close();
    front.closeAllConnections();
  }
}

describe('servers', { skip: noCurl, concurrency: 16 }, () => {
  /** @type {Record<string, { fault: Fault, error?: { code: string, message: RegExp } }>} */
  const faults = {
    ...rangeFaults(undefined, bytes).ranges,
    'a redirect to a file': {
      fault: (response) => void response.writeHead(302, { Location: 'file:///etc/passwd' }).end(),
      error: { code: 'io', message: /rotocol/ },
    },
  };
  const another = /were asked for, but 'bytes -?\d+-\d+\/\d+' came/; // than the first may begin at -1
  faults['another range'].error = { code: 'io', message: another };
  faults['no answer, ever'].error = { code: 'io', message: /cannot reach the server/ };
  const CODES = /** @type {Record<string, number>} */ ({ io: 1, not_found: 3, format: 3 });

  for (const [name, { fault, error }] of Object.entries(faults)) {
    /** @type {[string, string[], (number: number, from: number) => boolean][]} */
    const phases = [
      ['of the whole file', [], (number) => number > 0],
      ['of its beginning', COLD, (number) => number > 0],
      ['of cold rows', COLD, (_, from) => from > COLD_FROM],
    ];
    const isByte = name.startsWith('a byte');
    if (isByte) {
      // The header, of which the first block is a part, has no digest.
      phases[0][2] = (number) => number > 1;
      phases.splice(1, 1);
    }
    for (const [phase, args, begins] of phases) {
      // A file that is another one is opened anew, and this one then stays so.
      const mayReload = phase !== 'of cold rows' && error?.message.source.includes('has changed');
      test(`that send, instead of a range ${phase}, ${name}`, () =>
        withServer(async (server) => {
          const { fault: own = fault } = rangeFaults(undefined, bytes).ranges[name] ?? {};
          let first = -1;
          server.fault = (response, next, range, number) => {
            if (first < 0 && begins(number, range[0])) first = number;
            if (first < 0 || number < first) next();
            else own(response, next, range, number - first);
          };
          const run = await embed(server.url, newCache(), { args });
          assert.ok(first >= 0, 'there was no such request');
          if (!error || (mayReload && run.code === 0)) return assertRows(run);
          assert.match(run.err, /^wisp: http:/);
          assert.equal(run.rows.length, 0);
          if (mayReload) return;
          assert.match(run.err, error.message);
          assert.equal(run.code, CODES[error.code]);
        }));
    }
  }

  /** @type {Record<string, { fault: Fault, error?: [code: number, message: RegExp] }>} */
  const asked = {
    'the whole file': { fault: (response) => void response.writeHead(200, { ETag: '"one"', 'Content-Length': bytes.length }).end(bytes) }, // prettier-ignore
    'the whole file, of no length': {
      fault: (response) => void response.writeHead(200, { ETag: '"one"' }).end(bytes),
      error: [1, /does not say how many bytes/],
    },
    'a page': {
      fault: (response) =>
        void response.writeHead(200, { 'Content-Length': 20 }).end('<html>log in!</html>'),
      error: [3, /an HTML page/],
    },
    'a pointer of Git LFS': {
      fault: (response) =>
        void response.writeHead(200, { 'Content-Length': 24 }).end('version https://git-lfs.'),
      error: [3, /Git LFS/],
    },
    'an empty file': {
      fault: (response) => void response.writeHead(416, { 'Content-Range': 'bytes */0' }).end(),
      error: [3, /empty/],
    },
    'a compressed file': {
      fault: (response) => void response.writeHead(200, { 'Content-Encoding': 'gzip' }).end('...'),
      error: [1, /compresses/],
    },
    'a range of unknown size': {
      fault: (response) =>
        void response.writeHead(206, { 'Content-Range': 'bytes 0-0/*' }).end('G'),
      error: [1, /were asked for/],
    },
    'no file': { fault: (response) => void response.writeHead(404).end(), error: [3, /HTTP 404/] },
    nothing: { fault: (response) => response.destroy(), error: [1, /cannot reach the server/] },
    'nothing, once': { fault: (response, next, _, number) => (number === 0 ? response.destroy() : next()) }, // prettier-ignore
  };
  for (const [name, { fault, error }] of Object.entries(asked)) {
    for (const args of [[], COLD]) {
      test(`that send ${name} ${args.join(' ')}`, () =>
        withServer(async (server) => {
          server.fault = fault;
          const cache = newCache();
          const run = await embed(server.url, cache, { args });
          if (!error) return assertRows(run);
          assert.match(run.err, error[1]);
          assert.equal(run.code, error[0]);
          assert.equal(fileOf(cache, '.gguf'), undefined);
          server.fault = undefined;
          assertRows(await embed(server.url, cache, { args }));
        }));
    }
  }

  test('that stop answering: once, and for ever', () =>
    withServer(async (server) => {
      const env = { WISP_HTTP_TIMEOUT: '1' };
      server.fault = (_, next, __, number) => void (number === 2 || next());
      assertRows(await embed(server.url, newCache(), { env }));
      server.forget();
      server.fault = (_, next, __, number) => void (number > 1 || next());
      const run = await embed(server.url, newCache(), { env });
      assert.match(run.err, /http:.*nothing for 1 seconds/);
      assert.equal(run.code, 1);
    }));

  test('that send a byte now and then: once, and for ever', () =>
    withServer(async (server) => {
      const env = { WISP_HTTP_TIMEOUT: '1' };
      const drip = rangeFaults(server, bytes).drips(200);
      server.fault = (response, next, range, number) =>
        number === 2 ? drip(response, next, range, number) : next();
      assertRows(await embed(server.url, newCache(), { env }));
      server.forget();
      server.fault = (response, next, range, number) =>
        number > 1 ? drip(response, next, range, number) : next();
      const cache = newCache();
      const run = await embed(server.url, cache, { env });
      assert.match(
        run.err,
        /http:.*: bytes \d+ to \d+: the server sends fewer than 100 bytes a second; \d+ of \d+ bytes have come, the last \d+ at \d+\.\d a second/,
      );
      assert.equal(run.code, 1);
      // Bytes that came before are not fetched again.
      server.forget();
      server.fault = undefined;
      assertRows(await embed(server.url, cache));
      assert.ok(bytesFetched(server) < bytes.length, `${server.asked}`);
    }));

  test('whose redirects expire are asked anew', () =>
    withServer(async (server) => {
      let given = 0;
      let used = 0;
      const front = createServer((request, response) => {
        if (request.url === '/model.gguf') {
          response.writeHead(302, { Location: `/signed/${++given}` }).end('moved');
        } else if (request.url === `/signed/${used + 1}`) {
          used++;
          void pass(server, request, response, used === 3 ? 40_000 : undefined);
        } else {
          response.writeHead(403).end();
        }
      });
      await withFront(front, async (port) => {
        assertRows(await embed(`http://127.0.0.1:${port}/model.gguf`, newCache()));
        assert.ok(used > 3);
      });
    }));

  test('with https: a certificate must be trusted, and redirects stay with it', () =>
    withServer(async (server) => {
      const certificate = makeCertificate();
      const path = join(folder, 'certificate.pem');
      writeFileSync(path, certificate.cert);
      const front = createSecureServer(certificate, (request, response) => {
        if (request.url === '/model.gguf') void pass(server, request, response);
        else response.writeHead(302, { Location: server.url }).end();
      });
      await withFront(front, async (port) => {
        const url = `https://127.0.0.1:${port}/model.gguf`;
        const env = { CURL_CA_BUNDLE: '', SSL_CERT_FILE: path };
        assertRows(await embed(url, newCache(), { env }));
        assertRows(await embed(url, newCache(), { env, args: COLD }));
        const asked = server.asked.length;
        const unknown = await embed(url, newCache(), { env: { ...env, SSL_CERT_FILE: '' } });
        assert.match(unknown.err, /https:.*certificate/i);
        assert.equal(unknown.code, 1);
        const moved = await embed(url.replace('model', 'moved'), newCache(), { env });
        assert.match(moved.err, /https:.*rotocol/);
        assert.equal(moved.code, 1);
        assert.equal(server.asked.length, asked);
      });
    }));
});
