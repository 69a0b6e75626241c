// SPDX-License-Identifier: Apache-2.0
// wisp --model http://...: the same rows as with the file itself, and what is asked of the server for them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  BLOCK,
  COLD,
  assertRows,
  begin,
  blocksOf,
  bytes,
  bytesFetched,
  embed,
  expectedOf,
  fetched,
  fileOf,
  filesOf,
  newCache,
  noCurl,
  withServer,
} from './remote/program.mjs';
import { ROOT, smallColdModel, smallModel, wisp } from './support.mjs';

const PAGE = '<!DOCTYPE html><p>log in</p>';

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
      const came = bytesFetched(server);
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
      const least = /(\d+) bytes are always in memory/.exec(little.err)?.[1];
      assert.ok(least, little.err);
      // All that is needed has come, and the least limit is enough.
      server.forget();
      const memory = ['--memory', String(least), '-t', '2'];
      assertRows(await embed(server.url, cache, { args: [...COLD, ...memory] }));
      assert.deepEqual(server.asked, [[0, 0]]);
    }));

  test('whose header is pinned: that file, and no other', () =>
    withServer(async (server) => {
      const verified = wisp(['inspect', '--verify', '--format', 'json', smallColdModel()]).out;
      const { header_sha256: hash } = JSON.parse(verified).verified;
      const path = smallColdModel();
      const from = ['embed', '-m', path, '--text', 'a', '--header-sha256'];
      assert.equal(wisp([...from, hash]).code, 0);
      const short = wisp([...from, hash.slice(1)]);
      assert.equal(short.code, 2);
      assert.match(short.err, /64 lower-case hexadecimal digits/);
      const other = hash.replace(/^./, (/** @type {string} */ c) => (c === '0' ? '1' : '0'));
      for (const args of [[], COLD]) {
        const cache = newCache();
        assertRows(await embed(server.url, cache, { args: [...args, '--header-sha256', hash] }));
        const blocks = blocksOf(cache);
        const refused = await embed(server.url, cache, { args: [...args, '--header-sha256', other] }); // prettier-ignore
        assert.equal(refused.code, 3);
        assert.match(refused.err, /the header's SHA-256 is .*, not /);
        server.forget();
        const offline = ['--header-sha256', other, '--offline', ...args];
        const again = blocks - blocksOf(cache);
        assert.equal((await embed(server.url, cache, { args: offline })).code, 3);
        assertRows(await embed(server.url, cache, { args }));
        // The header alone comes again, and no other part that was kept: it may be what was damaged.
        assert.equal(bytesFetched(server), again * BLOCK);
        assert.ok(again <= blocks / 2, `${again} of ${blocks} blocks`);
      }
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
        [{ WISP_HTTP_TIMEOUT: '0' }, server.url, 2, /WISP_HTTP_TIMEOUT.*0: expected a number/],
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
