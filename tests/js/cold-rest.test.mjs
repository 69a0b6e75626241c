// SPDX-License-Identifier: Apache-2.0
// Models by range: the table of their chunks, and the rest of a file, which comes in the background.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { Bytes, Ranges } from '../../js/ranges/cold-ranges.js';
import { Rest } from '../../js/ranges/cold-rest.js';
import { readTable } from '../../js/ranges/cold-table.js';
import {
  CHUNK,
  TEXTS,
  assertOnce,
  bytes,
  coldOf,
  expected,
  failure,
  load,
  server,
  stored,
  table,
  until,
} from './cold/visits.mjs';
import { ROOT } from './support.mjs';

test('the table of a header: chunks, and the whole ones within a range', () => {
  const { start, cold, end, count, hot } = table;
  assert.ok(hot > 4 && count > hot + 4);
  assert.equal(table.range(0)[0], start);
  assert.equal(table.range(hot - 1)[1], cold);
  assert.deepEqual(table.range(0, count), [start, end]);
  const all = Array.from({ length: count }, (_, i) => table.range(i));
  for (let from = start - 50; from < end; from += 1997) {
    for (let to = from; to <= end; to += 5003) {
      const [first, last] = table.within([from, to]);
      const whole = all.flatMap(([a, b], i) => (from <= a && b <= to ? [i] : []));
      assert.equal(last - first, whole.length, `${from} ${to}`);
      if (whole.length > 0) assert.equal(first, whole[0]);
    }
  }
  const header = bytes.subarray(0, start);
  assert.equal(readTable(header.subarray(0, start - 64), cold, end), undefined);
  assert.equal(readTable(header, cold, end - 2 * CHUNK), undefined);
});

test('bytes that nobody reads again are released at once, and others stay', (t) => {
  const released = /** @type {number[]} */ ([]);
  const { postMessage } = MessagePort.prototype;
  t.mock.method(
    MessagePort.prototype,
    'postMessage',
    /** @this {MessagePort} */ function (/** @type {any} */ message, /** @type {any} */ transfer) {
      released.push(...transfer.map((/** @type {ArrayBuffer} */ each) => each.byteLength));
      return postMessage.call(this, message, transfer);
    },
  );
  const bytes = new Bytes();
  const size = 3 * 2 ** 20;
  const content = Uint8Array.from({ length: size }, (_, i) => i % 251);
  bytes.write(0, content);
  bytes.mark([0, size]);
  const before = bytes.read([0, 9]);
  bytes.forget(2.5 * 2 ** 20);
  assert.deepEqual(released, [2 ** 20, 2 ** 20]);
  assert.deepEqual(bytes.read([2 ** 21, size]), content.subarray(2 ** 21));
  assert.deepEqual(before, content.subarray(0, 9));
  assert.deepEqual(bytes.missing([0, size]), [], 'they are still no bytes to fetch');
});

describe('the rest of a file', () => {
  for (const workers of [0, 2]) {
    test(`comes once, while ${workers} workers embed, and rows have the bits of the whole model`, async () => {
      let seed = 7;
      server.fault = (_, next) => {
        seed = (seed * 48271) % 2147483647;
        setTimeout(next, seed % 7);
      };
      const embedder = await load({}, { workers });
      const many = TEXTS.map((text) => embedder.embed(text));
      const all = await embedder.embed(TEXTS);
      assert.deepEqual(all, expected);
      for (const [i, row] of (await Promise.all(many)).entries()) {
        assert.deepEqual(row.row(0), expected.row(i));
      }
      await until(() => coldOf(embedder).rest === 'done');
      assertOnce();
      const { presentBytes, fetchedBytes, requests, restBytes, restUsedBytes } = coldOf(embedder);
      assert.ok(restUsedBytes <= restBytes && restBytes <= bytes.length);
      assert.equal(presentBytes, bytes.length);
      assert.equal(fetchedBytes, bytes.length);
      assert.equal(requests, server.asked.length);
      assert.deepEqual(await embedder.embed(TEXTS), expected);
      assertOnce();
    });
  }

  test('is counted, and how much of it texts have needed since', async () => {
    const embedder = await load();
    const { hotBytes } = coldOf(embedder);
    await until(() => coldOf(embedder).rest === 'done');
    const came = coldOf(embedder);
    assert.deepEqual([came.restBytes, came.restUsedBytes], [bytes.length - hotBytes, 0]);
    assert.deepEqual([came.prefetched, came.reads], [0, 0]);
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(await embedder.embed(TEXTS), expected);
      const { reads, readBytes, restBytes, restUsedBytes, ...rest } = coldOf(embedder);
      assert.equal(restBytes, came.restBytes);
      assert.ok(restUsedBytes > 0 && restUsedBytes <= restBytes);
      assert.ok(reads > 0 && readBytes >= restUsedBytes);
      assert.ok(rest.prefetched >= rest.prefetchedUsed && rest.prefetchedWasted === 0);
      assert.equal(server.asked.length, came.requests);
    }
  });

  test('is asked for one request at a time, in order, and not while a text waits', async () => {
    /** @type {{ range: number[], end: () => void }[]} */
    const reads = [];
    const size = 3 << 20;
    const file = {
      ...{ name: 'f', size, isWhole: false, requests: 0, received: 0 },
      read: (/** @type {number[]} */ range) =>
        new Promise(
          (/** @type {(value?: undefined) => void} */ end) => void reads.push({ range, end }),
        ),
    };
    const ranges = new Ranges(file, 0);
    const rest = new Rest(ranges, size, () => {});
    await until(() => reads.length === 1);
    const K = 1024;
    const need = ranges.need([[2048 * K, 2049 * K]], new AbortController().signal);
    assert.deepEqual(reads.map(({ range }) => range), [[0, 512 * K], [2048 * K, 2049 * K]]); // prettier-ignore
    reads[0].end();
    await new Promise((resolve) => setTimeout(resolve, 200)); // longer than the line must be quiet
    assert.equal(reads.length, 2);
    reads[1].end();
    await need;
    for (let i = 2; rest.state === 'running'; i++) {
      await until(() => reads.length > i || rest.state === 'done');
      assert.ok(reads.length <= i + 1);
      reads[i]?.end();
    }
    assert.deepEqual(
      reads.slice(2).map(({ range }) => range.map((at) => at / K)),
      [[512, 1024], [1024, 1536], [1536, 2048], [2049, 2561], [2561, 3072]], // prettier-ignore
    );
  });

  test('leaves the line to a text that comes at once', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    /** @type {number[][]} */
    const asked = [];
    const file = {
      ...{ name: 'f', size: 4096, isWhole: false, requests: 0, received: 0 },
      read: (/** @type {number[]} */ range) => (asked.push(range), new Promise(() => {})),
    };
    const ranges = new Ranges(/** @type {any} */ (file), 0);
    const rest = new Rest(ranges, 4096, () => {});
    t.mock.timers.tick(99);
    await new Promise(setImmediate);
    void ranges.need([[1024, 2048]], new AbortController().signal);
    t.mock.timers.tick(1000);
    assert.deepEqual(asked, [[1024, 2048]]);
    rest.stop();
  });

  test('stays away with complete: false, and where data are to be saved', async () => {
    const still = async (/** @type {any} */ how) => {
      const embedder = await load(how);
      assert.equal(coldOf(embedder).rest, 'off');
      assert.ok(coldOf(embedder).presentBytes < bytes.length);
    };
    await still({ complete: false });
    const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
    const value = { connection: { saveData: true } };
    Object.defineProperty(globalThis, 'navigator', { value, configurable: true });
    try {
      await still({});
    } finally {
      if (before) Object.defineProperty(globalThis, 'navigator', before);
      else delete (/** @type {any} */ (globalThis).navigator);
    }
  });

  test('ends where the server refuses, and texts get a typed error, then rows', async () => {
    server.fault = (response, next, [from]) =>
      from < table.cold ? next() : void response.writeHead(403).end();
    const embedder = await load();
    await until(() => coldOf(embedder).rest === 'failed');
    await assert.rejects(embedder.embed(TEXTS), failure({ code: 'io', message: /HTTP 403/ }));
    server.fault = undefined;
    assert.deepEqual(await embedder.embed(TEXTS), expected);
  });

  test('goes on after an outage, and after bytes that are not those of the file', async () => {
    let left = 3;
    server.fault = (response, next, [from, to]) => {
      if (from < table.cold) return next();
      if (--left === 2) return void response.destroy();
      if (left < 0) return next();
      const last = Math.min(to, bytes.length - 1);
      const part = Buffer.from(bytes.subarray(from, last + 1));
      part[part.length >> 1] ^= 1;
      const range = `bytes ${from}-${last}/${bytes.length}`;
      response.writeHead(206, { ETag: server.etag, 'Content-Range': range }).end(part);
    };
    const embedder = await load();
    await stored(embedder);
    assert.deepEqual(await embedder.embed(TEXTS), expected);
  });

  test('a closed embedder asks for nothing more', async () => {
    const embedder = await load();
    await embedder.close();
    const before = server.asked.length;
    await until(() => server.open === 0);
    assert.ok(server.asked.length <= before + 1);
  });

  test('a program that does not close its embedder ends', async () => {
    const script = `import '${ROOT}js/cold-node.js';
      import { Embedder } from '${ROOT}js/node.js';
      const embedder = await Embedder.load('${server.url}', { workers: 1, cold: 'wait' });
      await embedder.embed('a');`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' }); // prettier-ignore
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });
});
