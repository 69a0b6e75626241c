// SPDX-License-Identifier: Apache-2.0
// The bound of the folder in which Node keeps chunks of models by range.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { cache } from '../../js/cold-node.js';
import { openStore } from '../../js/cold-store-node.js';
import { KeptChunks } from '../../js/cold-store.js';
import { ChunkTable, sha256 } from '../../js/cold-table.js';
import { Embedder } from '../../js/node.js';
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
  rmSync(join(folder, 'chunks'), { recursive: true });
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
  process.env.WISP_CACHE_BYTES = '1K';
  await (await use('b')).close();
  assert.equal(await kept(), 'b');
  process.env.WISP_CACHE_BYTES = '1X';
  await assert.rejects(use('a'), { code: 'argument', field: 'WISP_CACHE_BYTES' });
});

test('files in use stay, by this process or another, until it ends or is killed', async () => {
  process.env.WISP_CACHE_BYTES = '1';
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
    if (full && (await kept()).includes('a')) throw Object.assign(new Error('no space'), { code: 'ENOSPC' }); // prettier-ignore
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
