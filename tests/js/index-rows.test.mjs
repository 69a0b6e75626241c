// SPDX-License-Identifier: Apache-2.0
// Rows of an index that are odd: ids that are numbers, halves of surrogate pairs, metadata that are not JSON, and bytes that
// were changed with their checksums made right.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { WispError } from '../../js/base/errors.js';
import { readHeader } from '../../js/index/index-header.js';
import { Kernels } from '../../js/index/index-search.js';
import { Index } from '../../js/index-node.js';
import { atOnce } from '../../js/platform/slices.js';
import { extent, smallModel, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-index-rows-'));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'x.index');
const MODEL = smallModel();
const kernels = new Kernels(16);

/** Makes the checksums of an index right. @param {Uint8Array} bytes */
function mend(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  try {
    // The places follow from the header, of which the checksum has to be right first.
    view.setBigUint64(120, atOnce(kernels.checksumOf(bytes.subarray(0, 120))), true);
    const { places, lengths } = readHeader(bytes);
    places.forEach((place, s) => {
      const section = bytes.subarray(place, place + lengths[s]);
      view.setBigUint64(64 + 8 * s, atOnce(kernels.checksumOf(section)), true);
    });
  } catch {
    // It is refused all the same.
  }
  view.setBigUint64(120, atOnce(kernels.checksumOf(bytes.subarray(0, 120))), true);
  return bytes;
}

const listed = () => {
  const { out, code, err } = wisp(['index', 'list', path, '--format', 'ndjson']);
  const rows = out.split('\n').filter(Boolean);
  return { rows: rows.map((line) => JSON.parse(line)), code, err };
};

test('halves of surrogate pairs become U+FFFD, in texts, keys and values, and all else stays', async () => {
  const index = await Index.create({ dimensions: 1 });
  /** @type {[any, any][]} */
  const cases = [
    [{ a: '\ud800' }, { a: '\ufffd' }],
    [{ a: 'x\udc00y' }, { a: 'x\ufffdy' }],
    [{ '\ud83d': 1 }, { '\ufffd': 1 }],
    [{ a: '😀 \\ud800 \\\\ud800 "\\' }, { a: '😀 \\ud800 \\\\ud800 "\\' }],
    [
      ['\udfff\ud800', '\\\ud800'],
      ['\ufffd\ufffd', '\\\ufffd'],
    ],
  ];
  for (const [i, [metadata]] of cases.entries()) await index.add({ id: i, vector: [1], metadata });
  const embedder = { dimensions: 1, info: () => ({ name: '' }), embed: async () => ({ row: () => Float32Array.of(1) }) }; // prettier-ignore
  const withText = await Index.create(embedder);
  await withText.add({ id: 'text', text: 'one \ud800' });
  assert.deepEqual(withText.get('text'), { text: 'one \ufffd' });
  for (const [i, [, expected]] of cases.entries()) assert.deepEqual(index.get(i), expected);
  await index.save(path);
  const { rows, code } = listed();
  assert.equal(code, 0);
  assert.deepEqual(
    rows.map(({ metadata }) => metadata),
    cases.map(([, expected]) => expected),
  );
});

test('numbers are ids, as in the program', async () => {
  const index = await Index.create({ dimensions: 1 });
  await index.add([
    { id: 7, vector: [1] },
    { id: '7', vector: [2] },
    { id: 1.5, vector: [3] },
  ]);
  assert.deepEqual([...index.ids()], ['7', '1.5']);
  assert.ok(index.has(7) && index.has('7'));
  assert.equal(index.remove([7]), 1);
  await assert.rejects(index.add({ id: NaN, vector: [1] }), { code: 'argument' });
});

test('metadata that are not JSON cost no other row', async () => {
  wisp(
    ['index', 'build', '-m', MODEL, path, '--force', '--input', 'ndjson'],
    '{"id":"a","text":"one","n":"AAAA"}\n{"id":"b","text":"two","n":"BBBB"}\n{"id":"c","text":"one two"}\n',
  );
  const index = await Index.load(path);
  const bytes = Buffer.from(index.toBytes());
  for (const [found, put] of [
    ['"BBBB"', '"\\ud8"'],
    ['"BBBB"', '"\\x  '],
  ]) {
    const bad = Buffer.from(bytes);
    bad.write(put.padEnd(6), bad.indexOf(found));
    writeFileSync(path, mend(bad));
    const { rows, code, err } = listed();
    assert.equal(code, 3);
    assert.match(err, /the metadata of row 1: /);
    assert.deepEqual(
      rows.map(({ id, metadata }) => [id, metadata?.text]),
      [
        ['a', 'one'],
        ['b', undefined],
        ['c', 'one two'],
      ],
    );
    for (const format of ['text', 'json', 'ndjson']) {
      const search = wisp(['search', path, '-m', MODEL, '-q', 'one', '--format', format]);
      assert.equal(search.code, 3);
      assert.match(search.err, /the metadata of row 1: /);
      assert.match(search.out, /one two/);
      if (format !== 'text') JSON.parse(search.out);
    }
    const again = await Index.open(bad);
    assert.throws(() => again.get('b'), { code: 'format' });
    const matches = await again.search(new Float32Array(again.dimensions));
    assert.deepEqual(
      matches.map((/** @type {any} */ { id, error }) => [id, error?.code]),
      [
        ['a', undefined],
        ['b', 'format'],
        ['c', undefined],
      ],
    );
  }
});

test('many rows are added and read in tasks between which others run, and all at once', async () => {
  const index = await Index.create({ dimensions: 384 });
  const vector = new Float32Array(384).fill(1);
  const items = Array.from({ length: 20000 }, (_, i) => ({ id: i, vector, metadata: { i } }));
  /** @param {() => Promise<any>} work */
  const tasksDuring = async (work) => {
    let tasks = 0;
    const sizes = new Set();
    const count = () => {
      tasks++;
      sizes.add(index.size);
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    const result = await work();
    clearImmediate(timer);
    assert.ok(tasks > 1, `${tasks} tasks`);
    assert.equal(sizes.size, 1, 'a part of the rows was seen');
    return result;
  };
  await tasksDuring(() => index.add(items));
  assert.equal(index.size, 20000);
  const bytes = index.toBytes();
  const again = await tasksDuring(() => Index.open(bytes));
  assert.deepEqual(again.get(19999), { i: 19999 });
  // A bad item at the end changes nothing.
  await assert.rejects(index.add([...items, { id: '', vector }]), { field: 'items[20000].id' });
  assert.equal(index.size, 20000);
});

test('changed bytes with right checksums are refused, or read alike by the program', async () => {
  let seed = Number(process.env.WISP_SEED ?? 1);
  const random = (/** @type {number} */ n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
  /** @type {Uint8Array[]} */
  const good = [];
  for (const kind of /** @type {const} */ (['int8', 'f32'])) {
    const index = await Index.create({ dimensions: 3, kind });
    await index.add(
      Array.from({ length: 9 }, (_, i) => ({
        id: `row ${i}`,
        vector: [i, 1, -i],
        metadata: { i },
      })),
    );
    index.remove(['row 3']);
    good.push(new Uint8Array(index.toBytes()));
  }
  let opened = 0;
  const count = extent('mutated indexes', 4000, 400);
  for (let i = 0; i < count; i++) {
    const bytes = good[i % 2].slice();
    for (let changes = 1 + random(3); changes > 0; changes--) {
      const at = random(3) ? random(bytes.length) : random(64); // often in the header's fields
      bytes[at] = random(2) ? random(256) : bytes[at] ^ (1 << random(8));
    }
    mend(bytes);
    /** @type {any} */
    const index = await Index.open(bytes).catch((error) => error);
    const isOpen = index instanceof Index;
    assert.ok(isOpen || (index instanceof WispError && /^(format|unsupported)$/.test(index.code)), String(index.stack)); // prettier-ignore
    if (isOpen) {
      opened++;
      await index.search(new Float32Array(index.dimensions).fill(1));
    }
    if (i % 20 !== 0) continue;
    writeFileSync(path, bytes);
    const { code, signal, err } = wisp(['index', 'info', path]);
    assert.equal(signal, null);
    assert.equal(code, isOpen ? 0 : 3, `${err} ${isOpen ? '' : index.message}`);
  }
  assert.ok(opened > 0 && opened < count);
});
