// SPDX-License-Identifier: Apache-2.0
// wisp --model http://...: the same rows as with the file itself, or an error, whatever a server sends and whenever
// a process is killed.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs';
import { rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { machine, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { makeCertificate } from './certificate.mjs';
import { shortTexts } from './pool/texts.mjs';
import { rangeFaults } from './range-faults.mjs';
import { serveRanges } from './range-server.mjs';
import { DEFAULT_MODEL_PATH, PROGRAM, ROOT, smallColdModel, smallModel, wisp } from './support.mjs'; // prettier-ignore

/** @typedef {import('./range-server.mjs').RangeServer} RangeServer */
/** @typedef {NonNullable<RangeServer['fault']>} Fault */
/** @typedef {{ code: number | null, signal: string | null, rows: Buffer, err: string }} Ended */

const BLOCK = 4096;
const TEXTS = shortTexts(40, 3).join('\n');
const bytes = readFileSync(smallColdModel());
const folder = mkdtempSync(join(tmpdir(), 'wisp-remote-'));
after(() => rmSync(folder, { recursive: true }));

/** Has libcurl where the machine has none (tools/setup.py). */
const LIBRARIES = `${ROOT}.tools/curl/usr/lib/${machine()}-linux-gnu`;
const withLibraries = [process.env.LD_LIBRARY_PATH, LIBRARIES].filter(Boolean).join(':');

let caches = 0;
/** Returns a folder for a cache, which is not there yet. */
const newCache = () => join(folder, `cache-${caches++}`);

/**
 * Starts the program on texts.
 * @param {string} cache
 * @param {string[]} args
 * @param {Record<string, string>} [env]
 */
function begin(cache, args, env = {}) {
  const child = spawn(PROGRAM, args, {
    env: { ...process.env, LD_LIBRARY_PATH: withLibraries, WISP_CACHE: cache, ...env },
  });
  /** @type {Buffer[]} */
  const out = [];
  let err = '';
  child.stdout.on('data', (part) => out.push(part));
  child.stderr.on('data', (part) => (err += part));
  child.stdin.on('error', () => {}); // it may end before it has read
  /** @type {Promise<Ended>} */
  const ended = once(child, 'close').then(([code, signal]) => ({
    code,
    signal,
    rows: Buffer.concat(out),
    err,
  }));
  return { child, ended };
}

/**
 * Embeds texts with the model of a URL.
 * @param {string} url
 * @param {string} cache
 * @param {{ args?: string[], env?: Record<string, string>, texts?: string }} [options]
 */
function beginEmbed(url, cache, { args = [], env = {}, texts = TEXTS } = {}) {
  const all = ['embed', '-m', url, '--predictor', 'lowrank', '--format', 'f32', ...args];
  const begun = begin(cache, all, env);
  begun.child.stdin.end(texts);
  return begun;
}

/** @type {(...given: Parameters<typeof beginEmbed>) => Promise<Ended>} */
const embed = (...given) => beginEmbed(...given).ended;

const COLD = ['--cold', 'wait'];

const PAGE = '<!DOCTYPE html><p>log in</p>';

/** The reason to skip these tests, or false. CI skips nothing. */
const noCurl = (() => {
  const env = { ...process.env, LD_LIBRARY_PATH: withLibraries };
  const load = 'import ctypes; ctypes.CDLL("libcurl.so.4")';
  const isThere = spawnSync('python3', ['-c', load], { env }).status === 0;
  return isThere || process.env.CI ? false : 'libcurl is not there (tools/setup.py curl says why)';
})();

/** Where the cold rows of the model begin. */
const COLD_FROM = Math.min(
  ...JSON.parse(wisp(['inspect', '--format', 'json', smallColdModel()]).out)
    .tensors.filter((/** @type {{ name: string }} */ { name }) => name.endsWith('.cold'))
    .map((/** @type {{ offset: number }} */ { offset }) => offset),
);

/** @param {string} path @param {string} [predictor] */
const expectedOf = (path, predictor = 'lowrank') =>
  wisp(['embed', '-m', path, '--predictor', predictor, '--format', 'f32'], TEXTS).bytes;

const expected = expectedOf(smallColdModel());

/** @param {Ended} run @param {Buffer} [rows] */
function assertRows(run, rows = expected) {
  assert.equal(run.err, '');
  assert.equal(run.code, 0);
  assert.ok(run.rows.equals(rows), 'other rows came');
}

/** @param {(server: RangeServer) => Promise<void>} body */
async function withServer(body, file = bytes) {
  const server = await serveRanges(file);
  server.etag = '"one"';
  try {
    await body(server);
  } finally {
    await server.close();
  }
}

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

/** Requests for bytes of the file, without the first one of a run, which asks for its state. @param {RangeServer} s */
const fetched = (s) => s.asked.filter(([from, to]) => from !== to || from !== 0);

/** @param {string} cache */
const filesOf = (cache) => {
  const http = join(cache, 'http');
  return existsSync(http) ? readdirSync(http).sort() : [];
};

/** @param {string} cache @param {string} ending */
const fileOf = (cache, ending) => {
  const name = filesOf(cache).find((each) => each.endsWith(ending));
  return name === undefined ? undefined : join(cache, 'http', name);
};

/** How many blocks of a file the cache has. @param {string} cache */
function blocksOf(cache) {
  const path = fileOf(cache, '.have');
  if (path === undefined) return 0;
  const table = readFileSync(path);
  let blocks = 0;
  for (let at = 0; at + 8 <= table.length; at += 8) {
    if (table.readBigUInt64LE(at) !== 0n) blocks++;
  }
  return blocks;
}

/** @param {() => boolean} holds */
async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe('a model by URL', { skip: noCurl }, () => {
  test('has the rows of the file; then it is asked for once more, and not fetched', () =>
    withServer(async (server) => {
      const cache = newCache();
      assertRows(await embed(server.url, cache));
      assert.deepEqual(readFileSync(String(fileOf(cache, '.gguf'))), bytes);
      assert.equal(fileOf(cache, '.part'), undefined);
      assert.equal(fileOf(cache, '.have'), undefined);
      for (const headers of server.headers) assert.equal(headers['accept-encoding'], 'identity');
      server.forget();
      assertRows(await embed(server.url, cache));
      assert.deepEqual(server.asked, [[0, 0]]);
      assert.equal(server.headers[0]['if-none-match'], '"one"');
      server.fault = (response) => void response.writeHead(304).end();
      assertRows(await embed(server.url, cache));
      assertRows(await embed(server.url, cache, { args: COLD }));
    }));

  test('by ranges has the same rows, and fetches less; then nothing', () =>
    withServer(async (server) => {
      const cache = newCache();
      assertRows(await embed(server.url, cache, { args: COLD }));
      assert.ok(fetched(server).length > 1, `${server.asked}`);
      assert.ok(blocksOf(cache) > 0);
      server.forget();
      assertRows(await embed(server.url, cache, { args: COLD }));
      assert.deepEqual(server.asked, [[0, 0]]);
      // The whole file needs only what is absent.
      server.forget();
      const before = blocksOf(cache);
      assertRows(await embed(server.url, cache));
      const came = fetched(server).reduce((sum, [from, to]) => sum + to + 1 - from, 0);
      assert.ok(came <= bytes.length - (before - 1) * BLOCK, `${came} with ${before} blocks`);
    }));

  test('with skip and with a limit of memory', () =>
    withServer(async (server) => {
      const cache = newCache();
      const skipped = await embed(server.url, cache, { args: ['--cold', 'skip'] });
      assert.equal(skipped.code, 0);
      assert.match(skipped.err, /^wisp: [1-9]\d* neurons were skipped/);
      assertRows(await embed(server.url, cache, { args: [...COLD, '--memory', '10M'] }));
      const little = await embed(server.url, cache, { args: [...COLD, '--memory', '1K'] });
      assert.equal(little.code, 2);
      assert.match(little.err, /always in memory/);
    }));

  test('of other commands is fetched as a whole', () =>
    withServer(async (server) => {
      const cache = newCache();
      const run = begin(cache, ['tokenize', '-m', server.url, '--text', 'some text']);
      run.child.stdin.end();
      const { code, rows } = await run.ended;
      assert.equal(code, 0);
      const local = wisp(['tokenize', '-m', smallColdModel(), '--text', 'some text']);
      assert.equal(String(rows), local.out);
      assert.ok(fileOf(cache, '.gguf'));
    }));

  test('is named without its query, which may hold a secret', () =>
    withServer(async (server) => {
      const args = ['--verbose', '--predictor', 'dense'];
      const run = await embed(`${server.url}?token=secret`, newCache(), { args });
      assert.equal(run.code, 0);
      assert.ok(run.err.includes(`wisp: ${server.url}: dense layers in memory as`), run.err);
      assert.doesNotMatch(run.err, /secret/);
    }));

  test('may be one that generates', async () => {
    const path = `${ROOT}models/wisp-stories.gguf`;
    const write = ['--text', 'Once upon a time', '--max-tokens', '8', '--temperature', '0'];
    await withServer(async (server) => {
      const run = begin(newCache(), ['generate', '-m', server.url, ...write]);
      run.child.stdin.end();
      const { code, rows } = await run.ended;
      assert.equal(code, 0);
      assert.equal(String(rows), wisp(['generate', '-m', path, ...write]).out);
    }, readFileSync(path));
  });

  test('--offline uses the cache alone', async () => {
    const cache = newCache();
    const ranges = newCache();
    const OFFLINE = ['--offline'];
    let url = '';
    await withServer(async (server) => {
      url = server.url;
      assertRows(await embed(url, ranges, { args: COLD }));
      assertRows(await embed(url, cache));
    });
    assertRows(await embed(url, cache, { args: OFFLINE }));
    assertRows(await embed(url, cache, { args: [...OFFLINE, ...COLD] }));
    assertRows(await embed(url, ranges, { args: [...OFFLINE, ...COLD] }));
    for (const run of [
      await embed(url, ranges, { args: OFFLINE }),
      await embed(url, newCache(), { args: OFFLINE }),
      await embed(url, newCache(), { args: [...OFFLINE, ...COLD] }),
      await embed(`${url}?other`, cache, { args: OFFLINE }),
    ]) {
      assert.equal(run.code, 3);
      assert.match(run.err, /http:.*not in the cache/);
    }
    const run = await embed(url, cache);
    assert.equal(run.code, 1);
    assert.match(run.err, /cannot reach the server.*--offline/);
  });

  test('that is replaced on the server is replaced here', () =>
    withServer(async (server) => {
      const cache = newCache();
      assertRows(await embed(server.url, cache));
      const other = smallModel('prompted');
      server.bytes = readFileSync(other);
      server.etag = '"two"';
      assertRows(await embed(server.url, cache, { args: ['--predictor', 'dense'] }), expectedOf(other, 'dense')); // prettier-ignore
      assert.deepEqual(readFileSync(String(fileOf(cache, '.gguf'))), server.bytes);
      assert.equal(filesOf(cache).filter((name) => name.endsWith('.gguf')).length, 1);
    }));

  test('that is replaced while it comes is fetched anew', () =>
    withServer(async (server) => {
      const damaged = Buffer.from(bytes.map((byte) => byte ^ 1));
      server.bytes = damaged;
      damaged.write('GGUF');
      server.etag = '"old"';
      server.fault = (_, next, __, number) => {
        if (number === 2) [server.bytes, server.etag] = [bytes, '"one"'];
        next();
      };
      assertRows(await embed(server.url, newCache()));
    }));

  test('without a validator is fetched each time', () =>
    withServer(async (server) => {
      const cache = newCache();
      server.etag = '';
      assertRows(await embed(server.url, cache));
      server.forget();
      assertRows(await embed(server.url, cache));
      assert.equal(fetched(server).at(-1)?.[1], bytes.length - 1);
      assertRows(await embed(server.url, cache, { args: ['--offline'] }));
      assertRows(await embed(server.url, cache, { args: COLD }));
    }));

  test('by ranges, without a validator, stays for --offline', () =>
    withServer(async (server) => {
      const cache = newCache();
      server.etag = '';
      assertRows(await embed(server.url, cache, { args: COLD }));
      for (let runs = 0; runs < 2; runs++)
        assertRows(await embed(server.url, cache, { args: [...COLD, '--offline'] }));
    }));

  test('without a validator, whole and by ranges at once: right rows or an error, and nothing wrong stays', () =>
    withServer(async (server) => {
      server.etag = '';
      for (let round = 0; round < 4; round++) {
        const cache = newCache();
        const runs = await Promise.all(
          [[], COLD, [], COLD].map((args) => embed(server.url, cache, { args })),
        );
        for (const run of runs) {
          if (run.code === 0) assertRows(run);
          else assert.match(run.err, /another process/);
        }
        const offline = await embed(server.url, cache, { args: ['--offline'] });
        if (offline.code === 0) assertRows(offline);
        else assert.match(offline.err, /not in the cache/);
      }
    }));

  test('stays when a login page, or a file that breaks off, comes in its place', () =>
    withServer(async (server) => {
      for (const args of [[], COLD]) {
        const cache = newCache();
        server.fault = undefined;
        assertRows(await embed(server.url, cache, { args }));
        server.fault = (response) =>
          void response.writeHead(200, { ETag: '"page"', 'Content-Length': PAGE.length }).end(PAGE);
        const page = await embed(server.url, cache, { args });
        assert.match(page.err, /HTML page/);
        server.fault = (response, next, __, number) => {
          server.etag = '"two"';
          if (number === 0) next();
          else response.destroy();
        };
        server.forget();
        assert.notEqual((await embed(server.url, cache, { args })).code, 0);
        server.etag = '"one"';
        assertRows(await embed(server.url, cache, { args: [...args, '--offline'] }));
      }
    }));

  test('needs a cache, a good timeout, and no password', () =>
    withServer(async (server) => {
      const none = { WISP_CACHE: '', XDG_CACHE_HOME: '', HOME: '' };
      /** @type {[Record<string, string>, string, number, RegExp][]} */
      const wrong = [
        [none, server.url, 2, /WISP_CACHE/],
        [{ WISP_HTTP_TIMEOUT: '0' }, server.url, 2, /WISP_HTTP_TIMEOUT.*0: a number/],
        [{}, server.url.replace('//', '//me:secret@'), 2, /password/],
        [{ WISP_CACHE: '/dev/null' }, server.url, 1, /folder of the cache/],
      ];
      for (const [env, url, code, message] of wrong) {
        const run = await embed(url, newCache(), { env });
        assert.match(run.err, message);
        assert.doesNotMatch(run.err, /secret/);
        assert.equal(run.code, code);
      }
      for (const [name, path] of [
        ['XDG_CACHE_HOME', 'wisp/http'],
        ['HOME', '.cache/wisp/http'],
      ]) {
        const home = newCache();
        mkdirSync(home);
        assertRows(await embed(server.url, '', { env: { ...none, [name]: home } }));
        assert.ok(readdirSync(join(home, path)).length > 0);
      }
    }));
});

describe('servers', { skip: noCurl, concurrency: 16 }, () => {
  /** @type {Record<string, { fault: Fault, error?: { code: string, message: RegExp } }>} */
  const faults = {
    ...rangeFaults(undefined, bytes).ranges,
    403: {
      fault: (response) => void response.writeHead(403).end('no'),
      error: { code: 'io', message: /HTTP 403/ },
    },
    'a server that is busy for long': {
      fault: (response) => void response.writeHead(503, { 'Retry-After': 3600 }).end(),
      error: { code: 'io', message: /HTTP 503/ },
    },
    'a redirect to itself': {
      fault: (response) => void response.writeHead(302, { Location: '/model.gguf' }).end(),
      error: { code: 'io', message: /redirect/ },
    },
    'a redirect to a file': {
      fault: (response) => void response.writeHead(302, { Location: 'file:///etc/passwd' }).end(),
      error: { code: 'io', message: /rotocol/ },
    },
  };
  const another = /were asked for, and 'bytes -?\d+-\d+\/\d+' came/; // than the first may begin at -1
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
      test(`that send, in place of a range ${phase}, ${name}`, () =>
        withServer(async (server) => {
          let first = -1;
          server.fault = (response, next, range, number) => {
            if (first < 0 && begins(number, range[0])) first = number;
            if (first < 0 || number < first) next();
            else fault(response, next, range, number - first);
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

/** Sends the beginning of a long range, and then nothing. @type {(part: number) => Fault} */
const hangsAfter = (part) => (response, next, range) => {
  const length = range[1] + 1 - range[0];
  if (length <= BLOCK) return next();
  response.writeHead(206, {
    ETag: '"one"',
    'Content-Range': `bytes ${range[0]}-${range[1]}/${bytes.length}`,
  });
  response.write(bytes.subarray(range[0], range[0] + Math.floor(length * part)));
};

describe('a process that ends while a file comes', { skip: noCurl }, () => {
  for (const signal of /** @type {const} */ (['SIGKILL', 'SIGINT'])) {
    test(`by ${signal}: the next goes on where it was`, () =>
      withServer(async (server) => {
        const cache = newCache();
        let blocks = 0;
        for (const part of [0.3, 0.5, 0.7]) {
          server.fault = hangsAfter(part);
          const { child, ended } = beginEmbed(server.url, cache);
          await until(() => blocksOf(cache) > blocks + 8);
          blocks = blocksOf(cache);
          child.kill(signal);
          assert.equal((await ended).signal, signal);
          assert.equal(fileOf(cache, '.gguf'), undefined);
        }
        server.fault = undefined;
        server.forget();
        assertRows(await embed(server.url, cache));
        const came = fetched(server).reduce((sum, [from, to]) => sum + to + 1 - from, 0);
        assert.ok(came <= bytes.length - (blocks - 1) * BLOCK, `${came} with ${blocks} blocks`);
        assert.deepEqual(readFileSync(String(fileOf(cache, '.gguf'))), bytes);
      }));
  }

  test('by SIGKILL while it checks and stores the last bytes: the next has the file', () =>
    withServer(async (server) => {
      for (let round = 0; round < 12; round++) {
        const cache = newCache();
        const { child, ended } = beginEmbed(server.url, cache);
        const last = new Promise((resolve) => {
          server.fault = (response, next, range) => {
            if (range[1] === bytes.length - 1) response.on('finish', resolve);
            next();
          };
        });
        await last;
        await new Promise((resolve) => setTimeout(resolve, 2 * round));
        child.kill('SIGKILL');
        await ended; // it may have been done
        server.fault = undefined;
        assertRows(await embed(server.url, cache));
        assert.deepEqual(readFileSync(String(fileOf(cache, '.gguf'))), bytes);
        assert.equal(fileOf(cache, '.part'), undefined);
      }
    }));

  test('Ctrl-C ends the wait for cold rows', () =>
    withServer(async (server) => {
      server.fault = (_, next, range) => void (range[0] > COLD_FROM || next());
      const { child, ended } = beginEmbed(server.url, newCache(), { args: COLD });
      await until(() => server.asked.some(([from]) => from > COLD_FROM));
      child.kill('SIGINT');
      const { code, signal } = await ended;
      assert.deepEqual([code, signal], [130, null]);
    }));

  test('blocks that are damaged on disk are fetched again', () =>
    withServer(async (server) => {
      const cache = newCache();
      assertRows(await embed(server.url, cache, { args: COLD }));
      const part = String(fileOf(cache, '.part'));
      const have = String(fileOf(cache, '.have'));
      const damage = [
        () => writeFileSync(part, readFileSync(part).map((byte, at) => (at % 9000 ? byte : byte ^ 4))), // prettier-ignore
        () => writeFileSync(part, ''),
        () => writeFileSync(have, readFileSync(have).subarray(0, 24)),
        () => writeFileSync(have, Buffer.alloc(2 * readFileSync(have).length, 7)),
        () => rmSync(part),
        () => rmSync(have),
        () => writeFileSync(String(fileOf(cache, '.url')), 'x'),
      ];
      for (const each of damage) {
        each();
        assertRows(await embed(server.url, cache, { args: COLD }));
      }
      damage[0]();
      assertRows(await embed(server.url, cache));
      assert.deepEqual(readFileSync(String(fileOf(cache, '.gguf'))), bytes);
    }));
});

describe('several processes', { skip: noCurl }, () => {
  test('that want a file fetch it once', () =>
    withServer(async (server) => {
      const cache = newCache();
      const runs = await Promise.all([1, 2, 3, 4].map(() => embed(server.url, cache)));
      for (const run of runs) assertRows(run);
      const came = fetched(server).reduce((sum, [from, to]) => sum + to + 1 - from, 0);
      assert.equal(came, bytes.length);
    }));

  test('of which one is killed: another takes its place', () =>
    withServer(async (server) => {
      const cache = newCache();
      server.fault = hangsAfter(0.4);
      const first = beginEmbed(server.url, cache);
      await until(() => blocksOf(cache) > 8);
      server.fault = undefined;
      const asked = server.asked.length;
      const others = [1, 2].map(() => embed(server.url, cache));
      await until(() => server.asked.length >= asked + 2); // both know the state, and wait
      first.child.kill('SIGKILL');
      await first.ended;
      for (const run of await Promise.all(others)) assertRows(run);
    }));

  test('by ranges and as a whole, at once', () =>
    withServer(async (server) => {
      for (let round = 0; round < 5; round++) {
        const cache = newCache();
        const kinds = [COLD, [], COLD, ['--cold', 'skip'], COLD];
        const runs = await Promise.all(kinds.map((args) => embed(server.url, cache, { args })));
        runs.forEach((run, i) => (i === 3 ? assert.equal(run.code, 0) : assertRows(run)));
        assert.deepEqual(readFileSync(String(fileOf(cache, '.gguf'))), bytes);
      }
    }));
});

describe('the bound of the cache', { skip: noCurl }, () => {
  /** The entries of URLs in a cache. @param {string} cache */
  const entriesOf = (cache) => new Set(filesOf(cache).map((name) => name.slice(0, 32)));

  /** The states of whole files. @param {string} cache */
  const wholeOf = (cache) => filesOf(cache).filter((name) => name.endsWith('.gguf')).length;

  test('whoever opens a model deletes those that were used longest ago', () =>
    withServer(async (server) => {
      const cache = newCache();
      const env = { WISP_CACHE_BYTES: '700K' }; // two files
      /** @param {string} name */
      const use = async (name) => {
        server.etag = `"${name}"`;
        server.forget();
        assertRows(await embed(`${server.url}?${name}`, cache, { env }));
        return fetched(server).length > 0;
      };
      const fetches = [];
      for (const name of ['a', 'b', 'a', 'c', 'a', 'b', 'c']) fetches.push(await use(name));
      // c took the place of b, b that of c, and then c that of a.
      assert.deepEqual(fetches, [true, true, false, true, false, true, true]);
      assert.equal(wholeOf(cache), 2);
      assert.equal(entriesOf(cache).size, 2);
      env.WISP_CACHE_BYTES = '1M';
      assert.equal(await use('a'), true);
      assert.equal(entriesOf(cache).size, 3);
    }));

  test('a model in use stays, and one whose process was killed goes', () =>
    withServer(async (server) => {
      const cache = newCache();
      const env = { WISP_CACHE_BYTES: '1' };
      const args = ['embed', '-m', `${server.url}?a`, '--predictor', 'lowrank', '--format', 'f32'];
      const running = begin(cache, args, env);
      await until(() => wholeOf(cache) === 1);
      server.etag = '"two"';
      for (const more of [[], COLD]) {
        assertRows(await embed(`${server.url}?b`, cache, { env, args: more }));
        assert.equal(entriesOf(cache).size, 2);
      }
      running.child.stdin.end(TEXTS);
      assertRows(await running.ended);
      const killed = begin(cache, args, env);
      await until(() => server.asked.length > 0);
      killed.child.kill('SIGKILL');
      await killed.ended;
      server.etag = '"three"';
      assertRows(await embed(`${server.url}?c`, cache, { env }));
      assert.equal(entriesOf(cache).size, 1);
    }));

  for (const args of [[], COLD])
    test(`an address that is signed anew takes over what there is: ${args}`, () =>
      withServer(async (server) => {
        const cache = newCache();
        for (let i = 0; i < 3; i++) {
          server.forget();
          assertRows(
            await embed(`${server.url}?X-Amz-Signature=${i}&part=1&Expires=${i}`, cache, { args }),
          );
          assert.equal(fetched(server).length > 0, i === 0);
          assert.equal(entriesOf(cache).size, 1);
        }
        // Another file of that path is another entry, whatever its state is called; so is one whose state nobody names.
        server.forget();
        assertRows(await embed(`${server.url}?X-Amz-Signature=3&part=2`, cache, { args }));
        assert.ok(fetched(server).length > 0);
        assert.equal(entriesOf(cache).size, 2);
        server.etag = '"two"';
        assertRows(await embed(`${server.url}?file=b`, cache, { args }));
        assert.equal(entriesOf(cache).size, 3);
        server.etag = '';
        for (const i of [1, 2]) assertRows(await embed(`${server.url}?n=${i}`, cache, { args }));
        assert.equal(entriesOf(cache).size, 5);
      }));

  test('a file that is larger than the bound makes no other go, and goes itself first', () =>
    withServer(async (server) => {
      const cache = newCache();
      const env = { WISP_CACHE_BYTES: '700K' }; // two of the small files
      /** @param {string} name */
      const use = async (name) => {
        server.etag = `"${name}"`;
        const args = ['--predictor', 'dense'];
        const { code, err } = await embed(`${server.url}?${name}`, cache, { args, env });
        assert.deepEqual([code, err], [0, '']);
        return entriesOf(cache);
      };
      await use('a');
      const kept = await use('b');
      assert.equal(kept.size, 2);
      server.bytes = readFileSync(DEFAULT_MODEL_PATH);
      assert.equal((await use('c')).size, 3);
      server.bytes = bytes;
      assert.deepEqual(await use('b'), kept);
    }));

  test('a file system whose inodes have other numbers each time', () =>
    withServer(async (server) => {
      const shim = join(folder, 'inodes.so');
      const built = spawnSync('gcc', ['-D_GNU_SOURCE', '-shared', '-fPIC', '-o', shim, `${ROOT}tests/oracle/inodes.c`]); // prettier-ignore
      assert.equal(String(built.stderr), '');
      const cache = newCache();
      const env = { WISP_CACHE_BYTES: '1', LD_PRELOAD: shim };
      for (const name of ['a', 'b'])
        assertRows(await embed(`${server.url}?${name}`, cache, { env, args: COLD }));
      assert.equal(entriesOf(cache).size, 2, 'nobody knows what is in use, so nobody deletes');
    }));

  test('no number of bytes is an error', () =>
    withServer(async (server) => {
      for (const value of ['x', '-1', '1X', '99999999999999999999', '9999999999999G']) {
        const run = await embed(server.url, newCache(), { env: { WISP_CACHE_BYTES: value } });
        assert.equal(run.code, 2);
        assert.deepEqual(server.asked, []);
        assert.match(run.err, /WISP_CACHE_BYTES: .*: a number of bytes belongs here/);
      }
    }));
});

describe('libcurl', () => {
  test('that is absent is a typed error', () => {
    const none = newCache();
    mkdirSync(none);
    for (const name of ['libcurl.so.4', 'libcurl-gnutls.so.4', 'libcurl.so', 'libcurl.4.dylib']) {
      writeFileSync(join(none, name), 'no library');
    }
    const run = wisp(['embed', '-m', 'https://127.0.0.1:1/a.gguf', '--text', 'a'], '', {
      LD_LIBRARY_PATH: none,
      WISP_CACHE: newCache(),
    });
    assert.equal(run.code, 3);
    assert.match(run.err, /^wisp: https:\/\/127\.0\.0\.1:1\/a\.gguf: .*libcurl/);
  });

  const header = [`${ROOT}.tools/curl/usr/include`, '/usr/include'].find((path) =>
    existsSync(`${path}/curl/curl.h`),
  );
  const skip = header || process.env.CI ? false : 'curl/curl.h is not there (tools/setup.py curl)';
  test('has the numbers that wisp knows', { skip }, () => {
    const source = `${ROOT}tests/oracle/curl_header.c`;
    const run = spawnSync('gcc', ['-std=c11', '-fsyntax-only', '-Werror', `-I${ROOT}src`, '-isystem', String(header), source]); // prettier-ignore
    assert.equal(String(run.stderr), '');
    assert.equal(run.status, 0);
  });
});
