// SPDX-License-Identifier: Apache-2.0
// The bound of the folder in which Node keeps chunks of models by range.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import fileSystem from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { cache } from '../../js/cold-node.js';
import { openStore } from '../../js/ranges/cold-store-node.js';
import { KeptChunks } from '../../js/ranges/cold-store.js';
import { ChunkTable, sha256 } from '../../js/ranges/cold-table.js';
import { Embedder, WispError } from '../../js/node.js';
import { writeWhole } from '../../js/files/output-node.js';
import { serveRanges } from './range-server.mjs';
import { rechunk } from './rechunk.mjs';
import { ROOT, smallColdModel } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-room-'));
process.env.WISP_CACHE = folder;
const file = readFileSync(smallColdModel());

/** Files that differ in the size of their chunks. @type {Record<string, Buffer>} */
const files = {};
/** @type {import('./range-server.mjs').RangeServer} */
let server;
let hotBytes = 0;
before(async () => {
  server = await serveRanges(file);
  const how = { mode: 'wait', store: false, complete: false };
  const opened = await Embedder.load(server.url, { workers: 1, cold: /** @type {any} */ (how) });
  ({ hotBytes } = /** @type {any} */ (opened.stats()).cold);
  await opened.close();
  ['a', 'b', 'c'].forEach((name, i) => (files[name] = rechunk(file, hotBytes, 4096 << i)));
});
after(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});
afterEach(() => {
  delete process.env.WISP_CACHE_BYTES;
  rmSync(join(folder, 'chunks'), { recursive: true, force: true });
});

/** @param {string} name @param {string} [query] */
function serve(name, query = name) {
  server.bytes = files[name];
  server.etag = `"${name}"`;
  server.forget();
  return `${server.url}?${query}`;
}

/** Opens a file until all of it is kept. @param {string} name @param {string} [query] */
async function use(name, query) {
  const embedder = await Embedder.load(serve(name, query), {
    workers: 0,
    cold: { mode: 'wait', first: 4096 },
  });
  const cold = () => /** @type {any} */ (embedder.stats()).cold;
  while (cold().rest === 'running' || cold().storedBytes === 0) await new Promise((done) => setTimeout(done, 5)); // prettier-ignore
  assert.equal(cold().rest, 'done');
  return embedder;
}

const kept = async () => (await cache.list()).map(({ url }) => url.slice(-1)).sort().join(''); // prettier-ignore

test('the file that was used longest ago goes first', async () => {
  process.env.WISP_CACHE_BYTES = String(Math.round(2.5 * file.length));
  for (const [name, left] of [['a', 'a'], ['b', 'ab'], ['a', 'ab'], ['c', 'ac']]) await (await use(name)).close().then(async () => assert.equal(await kept(), left)); // prettier-ignore
  process.env.WISP_CACHE_BYTES = String(Math.round(1.5 * file.length));
  await (await use('b')).close();
  assert.equal(await kept(), 'b');
  process.env.WISP_CACHE_BYTES = '1X';
  await assert.rejects(use('a'), { code: 'argument', field: 'WISP_CACHE_BYTES' });
});

test('a clock that was set back keeps no file for ever', async () => {
  for (const name of await kept()) await cache.delete(serve(name));
  process.env.WISP_CACHE_BYTES = String(Math.round(2.5 * file.length));
  const { now } = Date;
  Date.now = () => now() + 365 * 86_400_000;
  await (await use('a')).close().finally(() => (Date.now = now));
  for (const [name, left] of [['b', 'ab'], ['c', 'bc']]) await (await use(name)).close().then(async () => assert.equal(await kept(), left)); // prettier-ignore
  for (const name of await kept()) await cache.delete(serve(name));
});

test('a file that is larger than the bound is not kept, and no other goes for it', async () => {
  /** @param {string} name @param {'wait' | 'skip'} mode @param {boolean} complete */
  const open = (name, mode, complete) =>
    Embedder.load(serve(name), { workers: 0, cold: { mode, first: 4096, complete } });
  const part = await open('a', 'wait', false);
  while ((await kept()) !== 'a') await new Promise((done) => setTimeout(done, 5));
  await part.close();
  process.env.WISP_CACHE_BYTES = String(files.c.length - 1);
  for (const mode of /** @type {const} */ (['wait', 'skip'])) {
    const embedder = await open('c', mode, true);
    const cold = () => /** @type {any} */ (embedder.stats()).cold;
    while (cold().rest === 'running') await new Promise((done) => setTimeout(done, 5));
    assert.equal(cold().rest, 'done');
    assert.equal(cold().storedBytes, 0);
    assert.match(cold().storeError, /^the file has \d+ bytes, more than WISP_CACHE_BYTES: \d+$/);
    assert.equal((await embedder.embed('words')).count, 1);
    await embedder.close();
    assert.equal(await kept(), 'a');
  }
  // A file that a larger bound let in goes when the bound is smaller.
  process.env.WISP_CACHE_BYTES = '1K';
  const last = await open('c', 'wait', false);
  while ((await kept()) !== '') await new Promise((done) => setTimeout(done, 5));
  await last.close();
});

test('files in use stay, by this process or another, until it ends or is killed', async () => {
  process.env.WISP_CACHE_BYTES = String(Math.round(1.5 * file.length));
  const first = await use('a');
  const script = `
    import '${ROOT}js/cold-node.js';
    import { Embedder } from '${ROOT}js/node.js';
    await Embedder.load('${serve('b')}', { workers: 0, cold: { mode: 'wait', complete: false } });
    setTimeout(() => {}, 1e6);`;
  const other = spawn(process.execPath, ['--input-type=module', '-e', script]);
  const uses = () => readdirSync(join(folder, 'chunks', 'use'));
  while (uses().length < 2 || (await kept()).length < 2) await new Promise((done) => setTimeout(done, 20)); // prettier-ignore
  await (await use('c')).close();
  assert.equal(await kept(), 'abc');
  await first.close();
  other.kill('SIGKILL');
  await once(other, 'exit');
  await (await use('c')).close();
  assert.equal(await kept(), 'c');
  while (uses().length > 0) await new Promise((done) => setTimeout(done, 5));
});

test('addresses that are signed anew have one entry, and fetch nothing again', async () => {
  for (const query of ['sig=1', 'sig=2', 'sig=3']) {
    await (await use('a', query)).close();
    assert.equal(readdirSync(join(folder, 'chunks', 'urls')).length, 1);
    if (query === 'sig=1') continue;
    assert.equal(server.asked.length, 1, 'its header, which says whether the file is the same');
  }
});

test('models stay apart whose addresses differ in their query alone, with one size and one ETag', async () => {
  const other = Buffer.from(file);
  for (let i = hotBytes >> 1; i < hotBytes; i += 97) other[i] ^= 0x11;
  const models = { a: files.a, b: rechunk(other, hotBytes, 4096) };
  assert.equal(models.a.length, models.b.length);
  /** @param {'a' | 'b'} name @param {boolean} store */
  const rowOf = async (name, store) => {
    server.bytes = models[name];
    server.etag = '"one"';
    const cold = { mode: /** @type {const} */ ('wait'), first: 4096, complete: false, store };
    const url = `${server.url}?model=${name}`;
    const embedder = await Embedder.load(url, { workers: 0, cold });
    const row = (await embedder.embed('words')).row(0);
    await embedder.close();
    return row;
  };
  const [a, b] = [await rowOf('a', false), await rowOf('b', false)];
  assert.notDeepEqual(a, b);
  for (let visit = 0; visit < 2; visit++) {
    assert.deepEqual(await rowOf('a', true), a);
    assert.deepEqual(await rowOf('b', true), b);
  }
});

test('with skip a file that is kept whole leaves nothing out, though nothing may be fetched', async () => {
  await (await use('a')).close();
  const embedder = await Embedder.load(serve('a'), {
    workers: 1,
    cold: { mode: 'skip', first: 4096, complete: false },
  });
  let skipped = 1;
  for (let i = 0; skipped > 0; i++) {
    assert.ok(i < 1000, `${skipped} neurons are left out`);
    ({ skipped } = /** @type {any} */ (await embedder.embed('words')));
  }
  assert.equal(/** @type {any} */ (embedder.stats()).cold.rest, 'off');
  await embedder.close();
});

test('a file that another process reads is replaced a moment later on Windows', async () => {
  const { rename } = fileSystem;
  const { platform } = process;
  const path = join(folder, 'replaced');
  writeFileSync(path, 'old');
  let refusals = 0;
  fileSystem.rename = async (...given) => {
    if (given[1] === path && refusals++ < 3)
      throw Object.assign(new Error('EPERM: not permitted'), { code: 'EPERM' });
    return rename(...given);
  };
  syncBuiltinESMExports();
  try {
    const write = (/** @type {string} */ text) => writeWhole(path, 'path', Buffer.from(text));
    await assert.rejects(write('new'), { code: 'io', field: 'path' }); // elsewhere it is forbidden
    assert.equal(refusals, 1);
    Object.defineProperty(process, 'platform', { value: 'win32' });
    await write('new');
    assert.equal(refusals, 4);
    assert.equal(readFileSync(path, 'utf8'), 'new');
  } finally {
    Object.defineProperty(process, 'platform', { value: platform });
    fileSystem.rename = rename;
    syncBuiltinESMExports();
  }
});

test('a disk that is full: files that nobody uses make room', async () => {
  await (await use('a')).close();
  const store = await openStore();
  const header = new Uint8Array(64);
  const chunk = new Uint8Array(32);
  const digest = Uint8Array.from(Buffer.from(await sha256(chunk), 'hex'));
  const table = new ChunkTable({ start: 64, cold: 96, end: 96, bytes: 32 }, digest);
  let full = false;
  const put = store.put.bind(store);
  store.put = async (key, bytes) => {
    // As the store of Node throws it.
    const cause = Object.assign(new Error('no space'), { code: 'ENOSPC' });
    if (full && (await kept()).includes('a')) throw new WispError('io', 'cannot write', { cause });
    return put(key, bytes);
  };
  const chunks = await KeptChunks.open(store, await sha256(header), table);
  await chunks.describe('http://x/', null, header);
  full = true;
  assert.deepEqual(await chunks.keep([64, 96], chunk), []);
  assert.equal(chunks.full, '');
  assert.equal(chunks.bytes, 32);
  assert.equal(await kept(), '/');
  // With nothing to delete the store stays as it is.
  store.put = async () => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
  };
  const more = await KeptChunks.open(store, 'f'.repeat(64), table);
  await store.delete('urls');
  await more.keep([64, 96], chunk);
  assert.equal(more.full, 'no space');
  writeFileSync(join(folder, 'chunks', 'x'), '');
});
