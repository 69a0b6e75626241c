// SPDX-License-Identifier: Apache-2.0
// wisp --model http://... with a cache in which others have put something: no file of the user is written to, and the program
// does not wait for ever.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { assertRows, begin, beginEmbed, embed, filesOf, folder, newCache, noCurl, until, withServer } from './remote/program.mjs'; // prettier-ignore

describe('planted files of the cache', { skip: noCurl }, () => {
  const victim = join(folder, 'victim');
  const TEXT = 'what the user wrote';

  /**
   * Makes a cache by a run that is killed while it fetches, so that it has files of every kind.
   * @param {import('./range-server.mjs').RangeServer} server
   */
  async function halfFetched(server) {
    const cache = newCache();
    server.forget();
    server.fault = (_, next, __, number) => void (number === 0 && next()); // the rest never comes
    const { child, ended } = beginEmbed(server.url, cache);
    await until(() => filesOf(cache).some((name) => name.endsWith('.part')));
    child.kill('SIGKILL');
    await ended;
    server.fault = undefined;
    return cache;
  }

  test('links to files of the user are not followed', () =>
    withServer(async (server) => {
      const names = filesOf(await halfFetched(server));
      assert.ok(names.length >= 4, String(names));
      for (const name of [...names, names[0].replace(/\..*/, '.gguf')]) {
        const cache = newCache();
        mkdirSync(join(cache, 'http'), { recursive: true });
        writeFileSync(victim, TEXT);
        const planted = join(cache, 'http', name);
        symlinkSync(victim, planted);
        const run = await embed(server.url, cache);
        assert.equal(readFileSync(victim, 'utf8'), TEXT, name);
        if (run.code === 0) assertRows(run);
        else assert.match(run.err, /: cannot open: Too many levels of symbolic links\n$/);
        rmSync(cache, { recursive: true });
      }
    }));

  test('files of one kind that are those of another end the run, and it does not wait', () =>
    withServer(async (server) => {
      const cache = await halfFetched(server);
      const [lock, use] = ['.lock', '.use'].map((ending) =>
        join(cache, 'http', filesOf(cache).find((name) => name.endsWith(ending)) ?? ''),
      );
      rmSync(use);
      linkSync(lock, use);
      const { code, err } = await embed(server.url, cache);
      assert.equal(code, 1);
      assert.match(err, /\.lock: is the file .*\.use, too: delete both/);
    }));

  test('a folder that others can write to, that is a link, or that is of another user', () =>
    withServer(async (server) => {
      const cache = newCache();
      assertRows(await embed(server.url, cache));
      const http = join(cache, 'http');
      for (const mode of [0o777, 0o770, 0o1777]) {
        chmodSync(http, mode);
        const { code, err } = await embed(server.url, cache);
        assert.equal(code, 1);
        assert.match(err, /others can write to it.*chmod go-w/);
      }
      chmodSync(http, 0o755);
      assertRows(await embed(server.url, cache));
      renameSync(http, join(cache, 'other'));
      symlinkSync('other', http);
      assert.match((await embed(server.url, cache)).err, /is not a folder of this user/);
      if (process.getuid?.() !== 0) return;
      rmSync(http);
      renameSync(join(cache, 'other'), http);
      chownSync(http, 12345, 12345);
      assert.match((await embed(server.url, cache)).err, /is not a folder of this user/);
    }));

  test('a FIFO is not waited for', () =>
    withServer(async (server) => {
      const cache = newCache();
      const names = filesOf(await halfFetched(server));
      mkdirSync(join(cache, 'http'), { recursive: true });
      const { spawnSync } = await import('node:child_process');
      const path = join(cache, 'http', names.find((name) => name.endsWith('.part')) ?? '');
      spawnSync('mkfifo', [path]);
      assert.ok(existsSync(path));
      const { ended } = begin(cache, ['embed', '-m', server.url, '--text', 'x']);
      assert.match((await ended).err, /cannot open/);
    }));
});
