// SPDX-License-Identifier: Apache-2.0
// wisp --model http://...: how much a cache keeps, and what it takes for the same file.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  COLD,
  TEXTS,
  assertRows,
  begin,
  bytes,
  embed,
  fetched,
  filesOf,
  folder,
  newCache,
  noCurl,
  until,
  withServer,
} from './remote/program.mjs';
import { DEFAULT_MODEL_PATH, ROOT } from './support.mjs';

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

  test('a clock that was set back keeps no entry for ever', () =>
    withServer(async (server) => {
      const cache = newCache();
      const use = async (/** @type {string} */ name) => {
        server.etag = `"${name}"`;
        assertRows(await embed(`${server.url}?${name}`, cache, { env: { WISP_CACHE_BYTES: '700K' } })); // prettier-ignore
      };
      await use('a');
      const [before] = entriesOf(cache);
      const later = Date.now() / 1000 + 365 * 86400;
      for (const name of filesOf(cache)) utimesSync(join(cache, 'http', name), later, later);
      for (const name of ['b', 'c']) await use(name);
      assert.equal(entriesOf(cache).size, 2);
      assert.ok(!entriesOf(cache).has(before), 'what was used a year from now is the oldest');
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
      server.forget();
      const killed = begin(cache, args, env);
      await until(() => server.asked.length > 0);
      killed.child.kill('SIGKILL');
      await killed.ended;
      server.etag = '"three"';
      assertRows(await embed(`${server.url}?c`, cache, { env }));
      assert.equal(entriesOf(cache).size, 1);
    }));

  test('what a process left that was killed while it deleted an entry goes', () =>
    withServer(async (server) => {
      const cache = newCache();
      mkdirSync(join(cache, 'http'), { recursive: true });
      writeFileSync(join(cache, 'http', `${'0'.repeat(32)}.use`), '');
      assertRows(await embed(server.url, cache));
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
        assert.match(run.err, /WISP_CACHE_BYTES: .*: expected a number of bytes/);
      }
    }));
});
