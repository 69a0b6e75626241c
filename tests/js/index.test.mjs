// SPDX-License-Identifier: Apache-2.0
// wisp-engine/index in Node, and that it reads, finds and writes what the program does.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Index, WispError } from '../../js/index-node.js';
import { Embedder } from '../../js/node.js';
import { DEFAULT_MODEL_PATH, ROOT, extent, floatsOf, wisp } from './support.mjs';
import { byTicks } from './slices.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-index-'));
after(() => rmSync(folder, { recursive: true }));
const at = (/** @type {string} */ name) => join(folder, name);

/** A generator of numbers from 0 to below 1 (mulberry32). @param {number} seed */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** @param {() => number} next @param {number} n */
const vectorOf = (next, n) => Float32Array.from({ length: n }, () => next() * 2 - 1);

/** @param {string} code @param {string} field */
const isError = (code, field) => (/** @type {any} */ error) =>
  error instanceof WispError && error.code === code && error.field === field;

const LINES = [
  'A man is eating food.',
  'A woman plays the violin.',
  'The cat sleeps.',
  'Café 日本',
];
const QUERIES = ['someone has a meal', 'music', 'an animal'];

describe('with the program', () => {
  for (const kind of /** @type {const} */ (['int8', 'f32'])) {
    test(`${kind}: the same bytes, and the same matches and scores`, async () => {
      const path = at(`${kind}.index`);
      writeFileSync(at('lines.txt'), LINES.join('\n'));
      const built = wisp(['index', 'build', path, '--kind', kind, at('lines.txt')]);
      assert.equal(built.code, 0, built.err);
      const index = await Index.load(path);
      assert.deepEqual(Buffer.from(index.toBytes()), readFileSync(path));
      assert.equal(index.size, LINES.length);
      assert.deepEqual(index.get(`${at('lines.txt')}:4`), { text: LINES[3] });

      const { out } = wisp(['search', path, '--format', 'ndjson'], QUERIES.join('\n'));
      const { bytes } = wisp(['embed', '--format', 'f32'], QUERIES.join('\n'));
      const rows = floatsOf(bytes);
      const vectors = QUERIES.map((_, i) => rows.subarray(i * 384, (i + 1) * 384));
      const found = await index.searchMany(vectors);
      const digits = kind === 'int8' ? 6 : 4; // sums of floats depend on their order
      for (const [i, line] of out.trim().split('\n').entries()) {
        const { matches } = JSON.parse(line);
        assert.deepEqual(
          found[i].map(({ id, score, metadata }) => ({
            id,
            score: score.toFixed(digits),
            metadata,
          })),
          matches.map((/** @type {any} */ match) => ({
            ...match,
            score: match.score.toFixed(digits),
          })),
        );
      }
    });
  }

  test('scores beyond floats are the largest and the least float, and JSON', async () => {
    const most = 2 ** 128 - 2 ** 104;
    const text = 'x';
    const vector = floatsOf(wisp(['embed', '--format', 'f32'], text).bytes);
    for (const kind of /** @type {const} */ (['int8', 'f32'])) {
      const index = await Index.create({ dimensions: 384, kind });
      await index.add([
        { id: 'far', vector: vector.map((x) => -Math.sign(x) * 3e38) },
        { id: 'near', vector: vector.map((x) => Math.sign(x) * 3e38) },
        { id: 'text', vector },
      ]);
      const expected = { near: most, far: -most };
      const path = at(`huge-${kind}.index`);
      await index.save(path);
      const { out } = wisp(['search', path, '--format', 'ndjson', '-q', text]);
      for (const found of [JSON.parse(out).matches, await index.search(vector)]) {
        const scores = found.map((/** @type {any} */ { id, score }) => [id, score]);
        assert.equal(scores[1][0], 'text');
        scores.splice(1, 1);
        assert.deepEqual(scores, Object.entries(expected));
      }
    }
  });

  test('the program lists and searches an index that JavaScript has made', async () => {
    const next = random(1);
    const index = await Index.create({ dimensions: 384 });
    await index.add([
      { id: 'é "1"', vector: vectorOf(next, 384), metadata: { text: 'one' } },
      { id: '2', vector: vectorOf(next, 384) },
      { id: '3', vector: vectorOf(next, 384), metadata: [1] },
      { id: '4', vector: vectorOf(next, 384) },
      { id: '5', vector: vectorOf(next, 384) },
    ]);
    assert.equal(index.remove(['2', '9']), 1);
    await index.save(at('made.index'));
    const { out, code, err } = wisp(['index', 'list', '--format', 'ndjson', at('made.index')]);
    assert.equal(code, 0, err);
    assert.deepEqual(
      out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
      [
        { id: 'é "1"', metadata: { text: 'one' } },
        { id: '3', metadata: [1] },
        { id: '4', metadata: null },
        { id: '5', metadata: null },
      ],
    );
    assert.equal(
      JSON.parse(wisp(['index', 'info', '--format', 'json', at('made.index')]).out).removed,
      1,
    );
    assert.equal(wisp(['search', at('made.index'), '-q', 'x']).code, 0);
  });
});

describe('vectors', () => {
  test('the best by plain sums, with ties in the order of adding', async () => {
    const next = random(2);
    for (const kind of /** @type {const} */ (['int8', 'f32'])) {
      for (const dimensions of [1, 3, 16, 37, 384]) {
        const index = await Index.create({ dimensions, kind });
        const vectors = Array.from({ length: 1500 }, () => vectorOf(next, dimensions));
        for (let i = 0; i < vectors.length; i += 7) vectors[i] = vectors[0];
        await index.add(vectors.map((vector, i) => ({ id: `${i}`, vector })));
        const query = vectors[0];
        const scores = vectors.map((vector) => vector.reduce((sum, x, i) => sum + x * query[i], 0));
        for (const k of [1, 10, 2000]) {
          const found = await index.search(query, { k });
          assert.equal(found.length, Math.min(k, vectors.length));
          for (const [i, { id, score }] of found.entries()) {
            assert.ok(Math.abs(score - scores[Number(id)]) < 2e-2 * Math.sqrt(dimensions), id);
            if (i === 0) continue;
            const before = found[i - 1];
            const later = before.score === score && Number(before.id) < Number(id);
            assert.ok(before.score > score || later);
          }
        }
      }
    }
  });

  test('adding, replacing and removing at random', async () => {
    const next = random(3);
    for (const kind of /** @type {const} */ (['int8', 'f32'])) {
      let index = await Index.create({ dimensions: 5, kind });
      /** @type {Map<string, number>} */
      const present = new Map();
      for (let step = 0; step < 300; step++) {
        const ids = Array.from(
          { length: 1 + Math.floor(next() * 5) },
          () => `${Math.floor(next() * 60)}`,
        );
        if (next() < 0.5) {
          await index.add(
            ids.map((id) => ({ id, vector: [step + 1, 0, 0, 0, 0], metadata: step })),
          );
          ids.forEach((id) => present.set(id, step));
        } else {
          const there = ids.filter((id) => present.delete(id)).length;
          assert.equal(index.remove(ids), there);
        }
        if (step % 10 === 0) index = await Index.open(index.toBytes());
        assert.equal(index.size, present.size);
        assert.deepEqual(new Set(index.ids()), new Set(present.keys()));
        for (const [id, value] of present) assert.equal(index.get(id), value);
      }
      const found = await index.search([1, 0, 0, 0, 0], { k: 100 });
      assert.equal(found.length, present.size);
      for (const { id, score } of found) {
        const wanted = Number(present.get(id)) + 1;
        assert.ok(Math.abs(score - wanted) < 1e-3 * wanted);
      }
    }
  });

  test('a large index lets other tasks run, which may search and change it', () =>
    byTicks(async () => {
      const dimensions = 4096; // 64 rows in f32 are as much as is searched in one step
      /** @type {import('../../js/index-node.js').Index} */
      const index = await Index.create({ dimensions, kind: 'f32' });
      const unit = (/** @type {number} */ at) => new Float32Array(dimensions).fill(1, at, at + 1);
      const [first, second] = [unit(0), unit(1)];
      await index.add(Array.from({ length: 4096 }, (_, i) => ({ id: `${i}`, vector: i % 2 ? first : second }))); // prettier-ignore
      const [atOnce, other] = [index.search(first, { k: 4096 }), index.search(second, { k: 2 })];
      assert.ok(
        (await atOnce).every(({ id, score }, i) => score === (i < 2048 ? Number(id) % 2 : 0)),
      );
      assert.deepEqual((await other).map(({ id, score }) => [id, score]), [['0', 1], ['2', 1]]); // prettier-ignore

      // Each of the changes comes while a search has a part of the rows behind it, and is found by the next one.
      const removed = index.search(first, { k: 1 });
      await new Promise(setImmediate);
      assert.equal(index.remove('1'), 1);
      assert.equal((await removed)[0].id, '1');
      assert.equal((await index.search(first, { k: 1 }))[0].id, '3');
      const replaced = index.search(second, { k: 4096 });
      await new Promise(setImmediate);
      await index.add({ id: '0', vector: first });
      const found = (await replaced).map(({ id }) => id);
      assert.equal(new Set(found).size, 4095);
      assert.equal(found[0], '0');
      assert.equal((await index.search(second, { k: 1 }))[0].id, '2');
      const compacted = index.searchMany([first, second], { k: 1 });
      const kept = index.arrayBuffer();
      await new Promise(setImmediate);
      assert.equal(index.remove(Array.from({ length: 3000 }, (_, i) => `${i}`)), 2999);
      assert.deepEqual((await compacted).map(([{ id }]) => id), ['3', '2']); // prettier-ignore
      assert.equal((await Index.open(await kept)).size, 4095);
      const both = await index.searchMany([first, second], { k: 1 });
      assert.deepEqual(both.map(([{ id }]) => id), ['3001', '3000']); // prettier-ignore
    }));

  test('what is wrong is named, and changes nothing', async () => {
    const index = await Index.create({ dimensions: 2 });
    /** @type {[any, string][]} */
    const items = [
      [{ id: '', vector: [1, 2] }, 'items[0].id'],
      [{ id: '\ud800', vector: [1, 2] }, 'items[0].id'],
      [{ id: {}, vector: [1, 2] }, 'items[0].id'],
      [{ id: 'a', vector: [1] }, 'items[0].vector'],
      [{ id: 'a', vector: [1, NaN] }, 'items[0].vector'],
      [{ id: 'a', vector: [1, 1e39] }, 'items[0].vector'],
      [{ id: 'a' }, 'items[0]'],
      [{ id: 'a', text: 'x', vector: [1, 2] }, 'items[0]'],
      [{ id: 'a', text: 'x', metadata: 3 }, 'items[0].metadata'],
      [{ id: 'a', vector: [1, 2], metadata: 1n }, 'items[0].metadata'],
      [{ id: 'a', text: 'x' }, 'embedder'],
      [{ id: 'a', vector: null }, 'items[0].vector'],
      [{ id: 'a', vector: ['1', '2'] }, 'items[0].vector'],
      [{ id: 'a', vector: new BigInt64Array(2) }, 'items[0].vector'],
      [null, 'items[0]'],
    ];
    for (const [item, field] of items) {
      await assert.rejects(index.add(item), isError('argument', field), field);
    }
    assert.equal(index.size, 0);
    await assert.rejects(index.search([1]), isError('argument', 'queries[0]'));
    await assert.rejects(index.search('text'), isError('argument', 'embedder'));
    await assert.rejects(index.search([1, 2], { k: 0 }), isError('argument', 'k'));
    await assert.rejects(Index.create({ dimensions: 0 }), isError('argument', 'dimensions'));
    const other = /** @type {any} */ ({ dimensions: 2, kind: 'int4' });
    await assert.rejects(Index.create(other), isError('argument', 'kind'));
    other.kind = Symbol('k');
    await assert.rejects(Index.create(other), isError('argument', 'kind'));
    await assert.rejects(Index.open(/** @type {any} */ ('x')), isError('argument', 'bytes'));
    const gone = new ArrayBuffer(8);
    structuredClone(gone, { transfer: [gone] });
    await assert.rejects(Index.open(gone), isError('argument', 'bytes'));
    const some = await Index.create({ dimensions: 2 });
    await some.add({ id: 'a', vector: [1, 2] });
    for (const ids of /** @type {any[]} */ ([null, 5, ['a', {}]]))
      assert.throws(() => some.remove(ids), isError('argument', 'ids'));
    assert.equal(some.size, 1);
    assert.deepEqual(await index.search([1, 2]), []);
  });
});

describe('bytes', () => {
  /** @type {Uint8Array} */
  let good;
  before(async () => {
    const index = await Index.create({ dimensions: 5 });
    await index.add(
      [1, 2, 3, 4, 5].map((n) => ({ id: `${n}`, vector: [n, 0, 1, 2, 3], metadata: n })),
    );
    index.remove('2');
    good = new Uint8Array(index.toBytes());
    assert.equal((await Index.open(good)).size, 4);
  });

  test('cut anywhere, and with a bit flipped anywhere: a typed error', async () => {
    const step = extent('damaged bytes of indexes', good.length, 100) === good.length ? 1 : 7;
    for (let i = 0; i < good.length; i += step) {
      await assert.rejects(Index.open(good.slice(0, i)), { code: 'format' });
      const bytes = good.slice();
      bytes[i] ^= 1 << ((i * 5) % 8);
      const code = i >= 8 && i < 12 ? 'unsupported' : 'format';
      await assert.rejects(Index.open(bytes), { code }, `byte ${i}`);
    }
  });

  test('views at any place of a buffer', async () => {
    for (let offset = 0; offset < 9; offset++) {
      const bytes = new Uint8Array(good.length + 20);
      bytes.set(good, offset);
      const index = await Index.open(bytes.subarray(offset, offset + good.length));
      assert.deepEqual(new Uint8Array(index.toBytes()), good);
    }
  });
});

describe('files', () => {
  test('a file appears whole, with nothing beside it, also through a link and a URL', async () => {
    const index = await Index.create({ dimensions: 1 });
    await index.add({ id: 'a', vector: [1] });
    writeFileSync(at('target.index'), 'WISPINDX', { mode: 0o600 });
    symlinkSync(at('target.index'), at('link.index'));
    await index.save(pathToFileURL(at('link.index')));
    assert.deepEqual(readFileSync(at('target.index')), Buffer.from(index.toBytes()));
    assert.equal((await Index.load(pathToFileURL(at('link.index')))).size, 1);
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.endsWith('.tmp')),
      [],
    );
  });

  test('its name may be as long as names are', async () => {
    const index = await Index.create({ dimensions: 1 });
    await index.add({ id: 'a', vector: [1] });
    for (let length = 245; length <= 255; length++) {
      const name = 'é'.repeat(length >> 1) + 'x'.repeat(length % 2);
      await index.save(at(name));
      const { code, err } = wisp(['index', 'remove', at(name), 'a']);
      assert.equal(code, 0, err);
      assert.equal((await Index.load(at(name))).size, 0);
      rmSync(at(name));
    }
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.endsWith('.tmp')),
      [],
    );
  });

  test('a process that is killed while it saves leaves one of the indexes whole', async () => {
    const place = at('killed.index');
    const [large, small] = [40_000, 30_000];
    // Each save waits for the disk, so that a kill at any moment comes within one.
    const script = `
      import { Index } from './js/index-node.js';
      const index = await Index.create({ dimensions: 64 });
      const add = (from, to) => index.add(Array.from({ length: to - from }, (_, i) =>
        ({ id: String(from + i), vector: new Float32Array(64).fill(1 + i) })));
      await add(0, ${small});
      for (let grows = true; ; grows = !grows) {
        await index.save(process.argv[1]);
        console.log('saved');
        if (grows) await add(${small}, ${large});
        else index.remove(Array.from({ length: ${large - small} }, (_, i) => String(${small} + i)));
      }`;
    const kills = extent('kills of a process that saves', 20, 5);
    for (let i = 0; i < kills; i++) {
      const args = ['--input-type=module', '-e', script, place];
      const child = spawn(process.execPath, args, {
        cwd: ROOT,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      await once(child.stdout, 'data');
      await new Promise((resolve) => setTimeout(resolve, 7 * i));
      child.kill('SIGKILL');
      await once(child, 'exit');
      const { size } = await Index.load(place);
      assert.ok(size === large || size === small, `${size} items`);
    }
    for (const name of readdirSync(folder)) if (/\.tmp$/.test(name)) rmSync(at(name));
  });

  test('what cannot be read or written', async () => {
    const index = await Index.create({ dimensions: 1 });
    await assert.rejects(index.save(at('none/x.index')), isError('io', 'path'));
    await assert.rejects(Index.load(at('none.index')), isError('not_found', 'path'));
    await assert.rejects(index.save(''), isError('argument', 'path'));
    await assert.rejects(Index.load(DEFAULT_MODEL_PATH), isError('format', 'header'));
  });

  test('require()', async () => {
    const required = createRequire(import.meta.url)(`${ROOT}js/index-node.cjs`);
    const index = await required.Index.create({ dimensions: 1 });
    assert.ok(index instanceof required.Index && index instanceof Index);
    await assert.rejects(required.Index.load(at('none.index')), required.WispError);
  });
});

describe('with an embedder', () => {
  /** @type {Embedder} */
  let embedder;
  before(async () => {
    embedder = await Embedder.load(undefined, { workers: 0 });
  });
  after(() => embedder.close());

  test('texts are added and found, by the program, too', async () => {
    const index = await Index.create(embedder);
    await index.add(LINES.map((text, i) => ({ id: `${i}`, text, metadata: { line: i } })));
    const [best] = await index.search('someone has a meal', { k: 1 });
    assert.deepEqual(best.metadata, { text: LINES[0], line: 0 });
    const none = /** @type {any} */ ({ id: 'none', vector: null });
    await assert.rejects(index.add(none), isError('argument', 'items[0].vector'));
    assert.equal(index.size, LINES.length);
    await index.save(at('texts.index'));
    const again = await Index.load(at('texts.index'), embedder);
    assert.deepEqual(await again.search('music'), await index.search('music'));
    const { out, err, code } = wisp(['search', at('texts.index'), '-k', '1', '-q', 'a pet']);
    assert.equal(code, 0, err);
    assert.match(out, /\t2\tThe cat sleeps\.\n$/);
    assert.equal(again.model, embedder.info().name);
  });

  test('those of another model are refused', async () => {
    const next = random(4);
    const row = vectorOf(next, 384);
    /** @type {import('../../types/vector-index.js').IndexEmbedder} */
    const other = {
      dimensions: 384,
      info: () => ({ name: 'other' }),
      embed: async (_, options) => ({ row: () => row.subarray(0, options?.dimensions) }),
    };
    const index = await Index.create(other, { dimensions: 100 });
    assert.equal(index.dimensions, 100);
    await assert.rejects(Index.open(index.toBytes(), embedder), isError('argument', 'model'));
    await assert.rejects(
      Index.open(index.toBytes(), { ...other, dimensions: 64 }),
      isError('argument', 'model'),
    );
    assert.equal((await Index.open(index.toBytes(), other)).model, 'other');
  });
});
