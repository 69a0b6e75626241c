// SPDX-License-Identifier: Apache-2.0
// wisp --model http://...: a cache is right whenever a process is killed, and whichever others use it.
import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import {
  BLOCK,
  COLD,
  COLD_FROM,
  assertRows,
  beginEmbed,
  blocksOf,
  bytes,
  bytesFetched,
  embed,
  fileOf,
  newCache,
  noCurl,
  until,
  withServer,
} from './remote/program.mjs';

/** @typedef {NonNullable<import('./range-server.mjs').RangeServer['fault']>} Fault */

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
        const came = bytesFetched(server);
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
      const came = bytesFetched(server);
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
