// SPDX-License-Identifier: Apache-2.0
// Models by range that Node keeps: later visits, and processes that share a store.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import fileSystem from 'node:fs/promises';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, test } from 'node:test';
import { cache } from '../../js/cold-node.js';
import { openStore } from '../../js/ranges/cold-store-node.js';
import { findKept } from '../../js/ranges/cold-store.js';
import {
  CHUNK,
  TEXTS,
  assertOnce,
  bytes,
  coldOf,
  embedWhole,
  entries,
  expected,
  failure,
  folder,
  load,
  server,
  settled,
  stored,
  table,
  until,
  visit,
} from './cold/visits.mjs';
import { serveRanges } from './range-server.mjs';
import { ROOT, smallCalibratedModel, smallModel } from './support.mjs';

describe('a later visit', () => {
  for (const workers of [0, 2]) {
    test(`asks once whether the file is the same, or not at all with immutable; ${workers} workers`, async () => {
      await visit();
      const embedder = await load({}, { workers });
      assert.deepEqual(await embedder.embed(TEXTS), expected);
      assert.deepEqual(server.asked, [[0, 0]]);
      assert.equal(server.headers[0]['if-none-match'], '"one"');
      const { fetchedBytes, presentBytes, store, rest } = coldOf(embedder);
      assert.deepEqual([fetchedBytes, presentBytes, store], [0, bytes.length, 'folder']);
      assert.ok(rest === 'running' || rest === 'done');
      server.forget();
      const again = await load({ immutable: true }, { workers });
      assert.deepEqual(await again.embed(TEXTS), expected);
      assert.deepEqual(server.asked, []);
    });
  }

  test('goes on with what an earlier one has fetched', async () => {
    const embedder = await load({ complete: false });
    await embedder.embed(TEXTS[0]);
    await settled(embedder);
    await embedder.close();
    const first = server.asked.filter((_, i) => server.headers[i]['if-none-match'] === undefined);
    const again = await load();
    assert.deepEqual(await again.embed(TEXTS), expected);
    await stored(again);
    assertOnce();
    assert.ok(server.asked.length > first.length);
  });

  test('works offline; what is not there is a typed error', async () => {
    const own = await serveRanges(bytes);
    const embedder = await load({ complete: false }, {}, own.url);
    const one = await embedder.embed(TEXTS[0]);
    await settled(embedder);
    await embedder.close();
    await own.close();
    for (const immutable of [false, true]) {
      const offline = await load({ immutable }, {}, own.url);
      assert.deepEqual(await offline.embed(TEXTS[0]), one);
      await assert.rejects(offline.embed(TEXTS), failure({ code: 'io', message: /cannot reach/ }));
      assert.deepEqual(await offline.embed(TEXTS[0]), one);
    }
    await assert.rejects(load({}, {}, `${own.url}2`), failure({ code: 'io', message: /cannot reach/ })); // prettier-ignore
    server.fault = (response) => void response.writeHead(404).end();
    await assert.rejects(load(), failure({ code: 'not_found', message: /HTTP 404/ }));
  });

  test('nothing is written or deleted after close', async () => {
    const { rename, rm } = fileSystem;
    /** @type {string[]} */
    const done = [];
    const slowly =
      (/** @type {any} */ change) =>
      async (/** @type {any[]} */ ...of) => {
        await new Promise((resolve) => setTimeout(resolve, 100));
        done.push(String(of[0]));
        return change(...of);
      };
    Object.assign(fileSystem, { rename: slowly(rename), rm: slowly(rm) });
    syncBuiltinESMExports();
    try {
      for (const end of /** @type {const} */ (['close', 'destroy'])) {
        const embedder = await load();
        assert.deepEqual(await embedder.embed(TEXTS), expected);
        await embedder[end]();
        const { length } = done;
        assert.ok(length > 0);
        await new Promise((resolve) => setTimeout(resolve, 500));
        assert.deepEqual(done.slice(length), []);
        rmSync(folder, { recursive: true });
      }
    } finally {
      Object.assign(fileSystem, { rename, rm });
      syncBuiltinESMExports();
    }
  });

  test('every entry with a flipped bit, cut, or empty: right rows, and the chunk comes again', async () => {
    await visit();
    const intact = new Map(entries().map((path) => [path, readFileSync(path)]));
    assert.ok(intact.size >= 4);
    for (const [path, whole] of intact) {
      const flipped = Buffer.from(whole);
      flipped[flipped.length >> 1] ^= 4;
      for (const damaged of [flipped, whole.subarray(0, whole.length - 1), Buffer.alloc(0)]) {
        writeFileSync(path, damaged);
        server.forget();
        const embedder = await load({ complete: false });
        assert.deepEqual(await embedder.embed(TEXTS), expected, path);
        const chunk = /(\d+)-(\d+)$/.exec(path);
        if (damaged === flipped && chunk) {
          const [first, count] = chunk.slice(1).map(Number);
          const [from, to] = table.range(first, first + count);
          const at = from + (flipped.length >> 1);
          const wrong = table.within([at - CHUNK + 1, at + CHUNK]);
          assert.equal(wrong[1] - wrong[0], 1);
          const [start, end] = table.range(wrong[0]);
          assert.ok(start >= from && end <= to);
          assert.deepEqual(server.asked, [[0, 0], [start, end - 1]], path); // prettier-ignore
        }
        assert.ok(coldOf(embedder).fetchedBytes <= bytes.length);
        await embedder.close();
        // It is right again. What the visit above deletes late, because it was damaged, comes once more.
        for (let visit = 0; visit === 0 || server.asked.length > 1; visit++) {
          assert.ok(visit < 4, `${path}: ${server.asked}`);
          const healed = await load();
          await stored(healed);
          await until(async () => findKept(await openStore(), server.url));
          await healed.close();
          server.forget();
          const again = await load();
          assert.deepEqual(await again.embed(TEXTS), expected);
          assert.deepEqual(server.asked[0], [0, 0]);
          await again.close();
        }
        rmSync(folder, { recursive: true });
        for (const [name, all] of intact) {
          mkdirSync(dirname(name), { recursive: true });
          writeFileSync(name, all);
        }
      }
    }
  });

  test('a file that was replaced: the new one is opened, and the old chunks are deleted', async () => {
    await visit();
    const [old] = await cache.list();
    assert.deepEqual([old.url, old.complete, old.bytes], [server.url, true, bytes.length]);
    const other = readFileSync(smallCalibratedModel());
    server.bytes = other;
    server.etag = '"two"';
    const embedder = await load();
    assert.deepEqual(await embedder.embed(TEXTS), await embedWhole(smallCalibratedModel()));
    await until(async () => {
      const [{ size, complete } = { size: 0, complete: false }] = await cache.list();
      return size === other.length && complete;
    });
    const [now, ...more] = await cache.list();
    assert.deepEqual(more, []);
    assert.equal(now.size, other.length);
    assert.ok(entries().every((path) => !path.includes(old.sha256)));
  });

  test('a file that is replaced in mid-session is an error; loading it again is right', async () => {
    const first = await load({ complete: false });
    await first.close();
    const embedder = await load({ complete: false });
    server.etag = '"two"';
    await assert.rejects(embedder.embed(TEXTS), failure({ code: 'io', message: /has changed/ }));
    const again = await load();
    assert.deepEqual(await again.embed(TEXTS), expected);
    await stored(again);
    // Equal chunks are kept under the new name.
    assert.equal((await cache.list()).length, 1);
  });

  test('a server that names no state sends the header again, and no more', async () => {
    server.etag = '';
    await visit();
    const embedder = await load();
    assert.deepEqual(await embedder.embed(TEXTS), expected);
    assert.deepEqual(server.asked, [[0, table.start - 1]]);
    server.fault = (response) => void response.destroy();
    const offline = await load();
    assert.deepEqual(await offline.embed(TEXTS), expected);
    server.fault = undefined;
    server.bytes = readFileSync(smallCalibratedModel());
    const changed = await load();
    assert.deepEqual(await changed.embed(TEXTS), await embedWhole(smallCalibratedModel()));
  });

  test('a server that names dates alone, and puts an older file in its place', async () => {
    let date = 'Sun, 22 Nov 2026 10:00:00 GMT';
    server.etag = '';
    server.fault = (response, next) => {
      const since = server.headers.at(-1)?.['if-modified-since'];
      response.setHeader('Last-Modified', date);
      if (since && Date.parse(date) <= Date.parse(since)) response.writeHead(304).end();
      else next();
    };
    await visit();
    assert.deepEqual(await (await load()).embed(TEXTS), expected);
    server.bytes = readFileSync(smallCalibratedModel());
    date = 'Sat, 21 Nov 2026 10:00:00 GMT';
    const older = await load();
    assert.deepEqual(await older.embed(TEXTS), await embedWhole(smallCalibratedModel()));
  });

  test('a silent server that names no state is not waited for', async () => {
    server.etag = '';
    await visit();
    server.fault = () => {}; // answers nothing
    const embedder = await load({ complete: false });
    assert.deepEqual(await embedder.embed(TEXTS), expected);
  });

  test('a server that sends the whole file: it is kept too', async () => {
    server.fault = (response) =>
      void response
        .writeHead(200, { ETag: server.etag, 'Content-Length': bytes.length })
        .end(bytes);
    const embedder = await load({}, { predictor: 'lowrank' });
    assert.equal(coldOf(embedder).mode, 'all');
    await stored(embedder);
    server.forget();
    const again = await load({}, { predictor: 'lowrank' });
    assert.deepEqual(await again.embed(TEXTS), expected);
    assert.deepEqual(server.asked, [[0, 0]]);
  });

  test('without a place to store, models are loaded all the same', async () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    process.env.WISP_CACHE = file;
    const embedder = await load();
    assert.deepEqual(await embedder.embed(TEXTS), expected);
    await until(() => coldOf(embedder).rest === 'done');
    const { storeError, storedBytes, presentBytes } = coldOf(embedder);
    assert.match(String(storeError), /ENOTDIR|EEXIST/);
    assert.deepEqual([storedBytes, presentBytes], [0, bytes.length]);
    assert.deepEqual(await embedder.embed(TEXTS), expected);
    assert.deepEqual(await cache.list(), []);
    const none = await load({ store: false });
    assert.equal(coldOf(none).store, 'none');
  });

  test('a call that is aborted in the middle of a body leaves no part of it', async () => {
    const embedder = await load({ complete: false });
    await settled(embedder);
    const before = entries().sort();
    const stop = new AbortController();
    server.fault = (response, _, [from, to]) => {
      const last = Math.min(to, bytes.length - 1);
      response.setHeader('ETag', server.etag);
      response.writeHead(206, { 'Content-Range': `bytes ${from}-${last}/${bytes.length}` });
      response.write(bytes.subarray(from, (from + last) >> 1), () => stop.abort());
    };
    const call = embedder.embed(TEXTS, { signal: stop.signal });
    await assert.rejects(call, { code: 'cancelled' });
    await until(() => server.open === 0);
    assert.deepEqual(entries().sort(), before);
    server.fault = undefined;
    assert.deepEqual(await embedder.embed(TEXTS), expected);
  });

  test('bytes that are wrong when the model is opened are not kept', async () => {
    const wrong = Buffer.from(bytes);
    wrong[table.start + 5000] ^= 1;
    server.bytes = wrong;
    await assert.rejects(load(), failure({ code: 'format', message: /chunk 1/ }));
    assert.deepEqual(await cache.list(), []);
    server.bytes = bytes;
    await visit();
    assert.deepEqual(await (await load()).embed(TEXTS), expected);
  });
});

describe('a header that the caller names by its SHA-256', () => {
  const hashOf = (/** @type {Buffer} */ all) => createHash('sha256').update(all).digest('hex');
  const sha256 = hashOf(bytes.subarray(0, table.start));

  test('opens that file, which is not asked for when it is kept', async () => {
    const embedder = await load({ sha256 });
    assert.deepEqual(await embedder.embed(TEXTS), expected);
    await stored(embedder);
    const [kept] = await cache.list();
    assert.equal(kept.sha256, sha256);
    await embedder.close();
    server.forget();
    server.bytes = readFileSync(smallCalibratedModel());
    server.etag = '"two"';
    const again = await load({ sha256, complete: false });
    assert.deepEqual(await again.embed(TEXTS), expected);
    assert.deepEqual(server.asked, []);
  });

  test('and no other, though its digests fit', async () => {
    const other = readFileSync(smallCalibratedModel());
    for (const store of [true, false]) {
      server.bytes = other;
      await (await load({ store })).close();
      await assert.rejects(load({ store, sha256 }), (/** @type {any} */ error) => {
        assert.deepEqual([error.code, error.field], ['format', 'sha256']);
        assert.match(
          error.message,
          new RegExp(`model.gguf: the header's SHA-256 is .*not ${sha256}`),
        );
        return true;
      });
      server.bytes = bytes;
      assert.deepEqual(await (await load({ store, sha256 })).embed(TEXTS), expected);
      await cache.delete();
    }
  });

  test('nor bytes that the header does not vouch for, where the whole file comes', async () => {
    for (const at of [table.start, bytes.length - 1]) {
      const damaged = Buffer.from(bytes);
      damaged[at] ^= 1;
      server.fault = (response) => void response.writeHead(200, { ETag: '"one"' }).end(damaged);
      await assert.rejects(load({ sha256 }), { code: 'format', field: 'wisp.chunks.sha256' });
    }
    server.fault = (response) => void response.writeHead(200, { ETag: '"one"' }).end(bytes);
    const embedder = await load({ sha256 }, { predictor: 'lowrank' });
    assert.deepEqual(await embedder.embed(TEXTS), expected);
  });

  test('nor a file without digests; and it has to be a hash', async () => {
    const plain = readFileSync(smallModel('prompted'));
    server.bytes = plain;
    const unknown = hashOf(plain);
    await assert.rejects(load({ sha256: unknown }), { code: 'unsupported', field: 'sha256' });
    for (const wrong of ['', 'x', sha256.toUpperCase(), 7]) {
      await assert.rejects(load({ sha256: wrong }), { code: 'argument', field: 'cold' });
    }
  });
});

describe('cache', () => {
  test('lists and deletes, for import and require', async () => {
    assert.deepEqual(await cache.list(), []);
    await visit();
    const other = await serveRanges(bytes);
    const embedder = await load({ complete: false }, {}, other.url);
    await until(async () => (await cache.list()).length === 2);
    // One file at two addresses is kept once.
    assert.equal(new Set((await cache.list()).map(({ sha256 }) => sha256)).size, 1);
    assert.deepEqual(coldOf(embedder).storedBytes, bytes.length - table.start);
    await embedder.close();
    await other.close();
    assert.equal(await cache.delete(new URL(other.url)), 0);
    assert.equal(await cache.persist(), true);
    const required = createRequire(import.meta.url)('../../js/cold-node.cjs').cache;
    assert.deepEqual(await required.list(), await cache.list());
    assert.equal(await required.delete(server.url), bytes.length);
    assert.deepEqual(entries(), []);
    assert.deepEqual(await cache.list(), []);
    assert.equal(await required.delete(), 0);
    assert.equal(await required.persist(), true);
  });

  test('leaves alone what others have put there', async () => {
    const theirs = [join(dirname(folder), 'file.txt'), join(folder, 'notes/file.txt')];
    for (const path of theirs) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, 'theirs');
    }
    await stored(await load());
    assert.equal(await cache.delete(`${server.origin}/./model.gguf`), bytes.length);
    assert.deepEqual(await cache.list(), []);
    for (const path of theirs) assert.equal(readFileSync(path, 'utf8'), 'theirs');
  });

  test('what is deleted under an embedder comes again', async () => {
    await visit();
    const embedder = await load({ complete: false });
    await cache.delete();
    assert.deepEqual(await embedder.embed(TEXTS), expected);
  });
});

test('threads of a process write files at once', async () => {
  const path = join(folder, 'whole');
  const code = `
    const { workerData } = require('node:worker_threads');
    const { file, path } = workerData;
    import(file).then(async ({ writeWhole }) => {
      for (let i = 0; i < 50; i++) await writeWhole(path, 'path', new Uint8Array(100));
    });`;
  const workerData = { file: `${ROOT}js/files/output-node.js`, path };
  const workers = [1, 2].map(() => new Worker(code, { eval: true, workerData }));
  const codes = await Promise.all(workers.map((worker) => once(worker, 'exit')));
  assert.deepEqual(codes, [[0], [0]]);
  assert.equal(readFileSync(path).length, 100);
});

describe('processes that share a store', () => {
  /** Prints the sum of the bits of all rows. */
  const SCRIPT = (/** @type {string} */ url) => `
    import '${ROOT}js/cold-node.js';
    import { Embedder } from '${ROOT}js/node.js';
    const how = { mode: 'wait', gap: 64, first: 8192 };
    const embedder = await Embedder.load('${url}', { workers: 1, cold: how });
    const rows = await embedder.embed(${JSON.stringify(TEXTS)});
    process.stdout.write(Buffer.from(rows.buffer).toString('base64'));
    while (embedder.stats().cold.rest === 'running') await new Promise((done) => setTimeout(done, 5));
    await embedder.close();`;
  const start = () =>
    spawn(process.execPath, ['--input-type=module', '-e', SCRIPT(server.url)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });

  test('at the same time: all rows are right, and nothing of the store is lost', async () => {
    const bits = Buffer.from(expected.buffer).toString('base64');
    await Promise.all(
      Array.from({ length: 3 }, async () => {
        const child = start();
        let text = '';
        child.stdout.on('data', (part) => (text += part));
        assert.deepEqual(await once(child, 'close'), [0, null]);
        assert.equal(text, bits);
      }),
    );
    server.forget();
    const embedder = await load({ complete: false });
    assert.deepEqual(await embedder.embed(TEXTS), expected);
    assert.deepEqual(server.asked, [[0, 0]]);
    assert.equal(coldOf(embedder).presentBytes, bytes.length);
  });

  test('one that is killed while it writes leaves a store that is of use', async () => {
    for (let count = 1; count <= 6; count++) {
      rmSync(folder, { recursive: true });
      mkdirSync(folder);
      const child = start();
      const ended = once(child, 'exit');
      // It is killed when the store has so many entries, the last of them whole or in part.
      await until(() => child.exitCode !== null || entries().length >= count);
      child.kill('SIGKILL');
      await ended;
      const embedder = await load();
      assert.deepEqual(await embedder.embed(TEXTS), expected);
      await stored(embedder);
    }
  });
});
