// SPDX-License-Identifier: Apache-2.0
// The option vectorCache: embeddings that are kept on disk, in the files of the program and of Python.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Embedder } from '../../js/node.js';
import { ADDON, DEFAULT_MODEL_PATH, noAddon, smallCalibratedModel, smallModel, wisp } from './support.mjs'; // prettier-ignore

const root = mkdtempSync(join(tmpdir(), 'wisp-vectors-'));
after(() => rmSync(root, { recursive: true }));

const TEXTS = ['cats are nice', 'the bank', 'Ein Satz mit „Zeichen“ 😀', 'a'];

/** @param {string} model @param {object} options */
const load = (model, options) => Embedder.load(model, { addon: ADDON, ...options });

/** Embeds TEXTS by a new embedder. @param {string} model @param {object} options @param {object} [how] */
async function embed(model, options, how) {
  const embedder = await load(model, options);
  const rows = await embedder.embed(TEXTS, how);
  const { vectorCache } = embedder.stats();
  await embedder.close();
  return { rows: [...rows.values()], vectorCache };
}

describe('a vector cache', { skip: noAddon }, () => {
  test('has the rows that were computed, with any workers', async () => {
    const vectorCache = join(root, 'workers');
    const plain = await embed(DEFAULT_MODEL_PATH, { workers: 1 });
    assert.equal(plain.vectorCache, undefined);
    const computed = { found: 0, computed: 4, lost: 0, truncated: 0 };
    assert.deepEqual(await embed(DEFAULT_MODEL_PATH, { workers: 2, vectorCache }), { ...plain, vectorCache: computed }); // prettier-ignore
    for (const workers of [0, 1, 3]) {
      const again = await embed(DEFAULT_MODEL_PATH, { workers, vectorCache });
      assert.deepEqual(again, { ...plain, vectorCache: { ...computed, found: 4, computed: 0 } });
    }
    const short = await embed(DEFAULT_MODEL_PATH, { workers: 1, vectorCache }, { dimensions: 8 });
    assert.deepEqual([short.rows.length, short.vectorCache], [32, computed]);
  });

  test('says of a row that it found that its text was truncated', async () => {
    const vectorCache = join(root, 'truncated');
    const args = ['embed', '-m', DEFAULT_MODEL_PATH, '--vector-cache', vectorCache, '--text', 'a', '--text', 'b '.repeat(300)]; // prettier-ignore
    for (let n = 0; n < 2; n++)
      assert.match(wisp(args).err, /1 text is longer than the model's 256 tokens and truncated/);
    const embedder = await load(DEFAULT_MODEL_PATH, { workers: 1, vectorCache });
    await embedder.embed(['a', 'b '.repeat(300)]);
    await embedder.embed(['c '.repeat(300)]);
    const { truncatedTexts, vectorCache: counts } = embedder.stats();
    assert.deepEqual(counts, { found: 2, computed: 1, lost: 0, truncated: 1 });
    assert.equal(truncatedTexts, 1);
    await embedder.close();
  });

  for (const portable of [false, true])
    test(`is that of the program${portable ? ', portable' : ''}`, async () => {
      const vectorCache = join(root, `program ${portable}`);
      const args = ['--vector-cache', vectorCache, ...(portable ? ['--portable'] : [])];
      const { err } = wisp(['embed', '-m', DEFAULT_MODEL_PATH, ...args, '--stats', '--format', 'f32'], TEXTS.slice(1).join('\n')); // prettier-ignore
      assert.match(err, /vector cache: 0 texts found, 3 computed/);
      const { vectorCache: counts } = await embed(DEFAULT_MODEL_PATH, { workers: 1, portable, vectorCache }); // prettier-ignore
      assert.deepEqual(counts, { found: 3, computed: 1, lost: 0, truncated: 0 });
      const first = ['--text', TEXTS[0]];
      const more = wisp(['embed', '-m', DEFAULT_MODEL_PATH, ...args, '--stats', '--format', 'f32', ...first]); // prettier-ignore
      assert.match(more.err, /vector cache: 1 texts found, 0 computed/);
      assert.equal(readdirSync(vectorCache).length, 1);
    });

  test('knows what changes of the neurons change, and counts on', async () => {
    const vectorCache = join(root, 'sparse');
    const options = { workers: 1, predictor: 'lowrank', sparsity: 0.2 };
    const embedder = await load(smallCalibratedModel(), { ...options, vectorCache });
    const plain = await load(smallCalibratedModel(), options);
    for (const [i, sparse] of [{}, { sparsity: 0.8 }, { predictor: 'exact' }, {}].entries()) {
      if (i > 0) for (const each of [embedder, plain]) await each.setSparse(/** @type {any} */ (sparse)); // prettier-ignore
      for (let n = 0; n < 2; n++)
        assert.deepEqual(await embedder.embed(TEXTS), await plain.embed(TEXTS));
    }
    const { found = 0, computed = 0 } = embedder.stats().vectorCache ?? {};
    assert.equal(found + computed, 32);
    assert.ok(found >= 16 && computed >= 12, `${found} found, ${computed} computed`);
    await embedder.close();
    await plain.close();
  });

  test('that cannot be', async () => {
    const model = smallModel();
    const file = join(root, 'file');
    writeFileSync(file, '');
    await assert.rejects(load(model, { vectorCache: file }), { code: 'io' });
    const small = load(model, { vectorCache: join(root, 'small'), vectorCacheSize: 100 });
    await assert.rejects(small, { code: 'argument', message: /100 bytes, and 8 rows of/ });
    await assert.rejects(load(model, { vectorCache: `${root}/a\0b` }), { field: 'vectorCache', message: /NUL/ }); // prettier-ignore
    await assert.rejects(load(model, { vectorCache: root, vectorCacheSize: 0 }), { field: 'vectorCacheSize' }); // prettier-ignore
    await assert.rejects(load(model, { vectorCacheSize: 1e6 }), { code: 'argument', message: /requires the option vectorCache/ }); // prettier-ignore
  });
});

test('WebAssembly keeps no embeddings, and says so', async () => {
  for (const more of [{}, { workers: 0 }, { threads: 2 }])
    await assert.rejects(
      Embedder.load(DEFAULT_MODEL_PATH, { backend: 'wasm', vectorCache: root, ...more }),
      {
        // prettier-ignore
        code: 'unsupported',
        field: 'vectorCache',
        message: /only native code in Node, on Linux and macOS, keeps files/,
      },
    );
});
