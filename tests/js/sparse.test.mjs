// SPDX-License-Identifier: Apache-2.0
// A calibrated model natively, in the module alone and in a pool: the same bits wherever the kernels
// are the same, and statistics that say what was computed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';
import { Embedder } from '../../js/node.js';
import { compileBuild } from '../../js/embedding-node.js';
import { shortTexts } from './pool/texts.mjs';
import { cosine, floatsOf, smallCalibratedModel, smallModel, wisp } from './support.mjs';

const MODEL = smallCalibratedModel();
const LAYERS = 12;
const NEURONS = 52;
const TEXTS = shortTexts(300, 0);

/** Sparse layers compute in int8, so they are compared with int8 results. */
const SETTINGS = /** @type {const} */ ([
  { predictor: 'dense', compute: 'int8' },
  { predictor: 'exact', compute: 'int8' },
  { predictor: 'lowrank', compute: 'int8' },
  { predictor: 'lowrank', compute: 'int8', sparsity: 0.8 },
  { predictor: 'sentence', compute: 'int8' },
  { predictor: 'sentence', compute: 'int8', sparsity: 0.8 },
]);

/** Returns whether the predictor has thresholds. @param {{ predictor: string }} setting */
const chooses = ({ predictor }) => predictor === 'lowrank' || predictor === 'sentence';

/** @param {Float32Array} rows */
const plain = (rows) => new Float32Array(rows.buffer);

/** @param {import('../../js/engine/engine.js').EngineOptions} options */
async function openEngine(options) {
  const module = await compileBuild(pickBuild());
  return Engine.open(module, new Uint8Array(readFileSync(MODEL)), options);
}

/**
 * Rows of the native program.
 * @param {typeof SETTINGS[number]} setting
 * @param {readonly string[]} texts
 * @param {string[]} options
 */
function native(setting, texts, ...options) {
  const { predictor, compute } = setting;
  const sparsity = 'sparsity' in setting ? ['--sparsity', String(setting.sparsity)] : [];
  const args = ['-m', MODEL, '--predictor', predictor, '--compute', compute, ...sparsity];
  const run = wisp(['embed', ...args, '--format', 'f32', ...options], texts.join('\n') + '\n');
  assert.equal(run.code, 0, run.err);
  return floatsOf(run.bytes);
}

for (const setting of SETTINGS) {
  describe(JSON.stringify(setting), () => {
    /** @type {Float32Array} */
    let expected;
    /** @type {import('../../types/index.js').LayerStats[]} */
    let layers;
    let size = 0;
    before(async () => {
      const engine = await openEngine(setting);
      expected = engine.embed(TEXTS);
      layers = engine.stats().layers;
      size = engine.dimensions;
      const { predictor, sparsity } = engine.info();
      const wanted = 'sparsity' in setting ? 0.8 : chooses(setting) ? 0.6 : 0;
      assert.deepEqual([predictor, sparsity], [setting.predictor, wanted]);
      engine.close();
    });

    test('the module alone: a row has the same bits by itself and in any company', async () => {
      const engine = await openEngine(setting);
      TEXTS.slice(0, 40).forEach((text, i) =>
        assert.deepEqual(engine.embed([text]), expected.subarray(i * size, (i + 1) * size)),
      );
      engine.close();
    });

    test('natively: so it has, with 1 thread and with 4, and near the module', () => {
      const rows = native(setting, TEXTS, '--threads', '1');
      assert.deepEqual(native(setting, TEXTS, '--threads', '4'), rows);
      assert.deepEqual(native(setting, [TEXTS[11]]), rows.slice(11 * size, 12 * size));
      assert.equal(rows.length, expected.length);
      // Kernel sets round in their own ways, and the module's attention is in 16 bits; a logit next
      // to its threshold may then choose otherwise.
      const least = chooses(setting) ? 0.998 : 0.999;
      assert.ok(cosine(rows, expected) > least, `${cosine(rows, expected)}`);
    });

    for (const workers of [1, 4]) {
      test(`${workers} workers: the bits and the counts of the module alone`, async () => {
        const embedder = await Embedder.load(MODEL, { workers, ...setting });
        assert.deepEqual(plain(await embedder.embed(TEXTS)), expected);
        const stats = embedder.stats();
        assert.equal(stats.layers.length, LAYERS);
        stats.layers.forEach((layer, i) => {
          assert.ok(layer.seconds > 0);
          assert.deepEqual({ ...layer, seconds: 0 }, { ...layers[i], seconds: 0 });
          assert.equal(layer.tokens, stats.tokens);
        });
        const row = plain(await embedder.embed(TEXTS[7]));
        assert.deepEqual(row, expected.slice(7 * size, 8 * size));
        await embedder.close();
      });
    }

    test('layers count what the predictor says', () => {
      const computed = layers.reduce((sum, layer) => sum + layer.computed / LAYERS, 0);
      const [{ neurons }] = layers;
      for (const layer of layers) {
        assert.equal(layer.neurons, layer.tokens * NEURONS);
        assert.ok(layer.contributing > 0 && layer.contributing <= layer.computed);
        if (!chooses(setting)) assert.equal(layer.computed, layer.neurons);
        if (setting.predictor === 'dense') assert.equal(layer.contributing, layer.neurons);
        assert.deepEqual([layer.compared, layer.needed, layer.found], [0, 0, 0]);
      }
      if (!chooses(setting)) return;
      const left = 1 - computed / neurons;
      assert.ok(Math.abs(left - ('sparsity' in setting ? 0.8 : 0.6)) < 0.1, `${left}`);
    });
  });
}

describe('statistics', () => {
  test('recall, where it is asked for, and for sparse layers alone', async () => {
    const embedder = await Embedder.load(MODEL, { workers: 2, predictor: 'exact', recall: true });
    const before = plain(await embedder.embed(TEXTS));
    for (const { compared, needed, found, computed, neurons } of embedder.stats().layers) {
      assert.equal(found, needed, 'recall 1');
      assert.equal(compared, computed);
      assert.ok(needed > 0.15 * neurons && needed <= 0.2 * neurons, 'the largest fifth');
    }
    const unasked = await Embedder.load(MODEL, { workers: 1, predictor: 'exact' });
    assert.deepEqual(plain(await unasked.embed(TEXTS)), before);
    await unasked.close();

    const exact = embedder.stats();
    await embedder.setSparse({ sparsity: 0.8 });
    await embedder.embed(TEXTS);
    const lowrank = embedder.stats();
    lowrank.layers.forEach((layer, i) => {
      const { needed, found, compared, computed } = exact.layers[i];
      const recall = (layer.found - found) / (layer.needed - needed);
      const share = (layer.computed - computed) / (layer.tokens / 2) / NEURONS;
      assert.ok(recall > share && recall <= 1, `layer ${i}: ${recall}, by chance ${share}`);
      assert.equal(layer.compared - compared, layer.computed - computed);
    });

    await embedder.setSparse({ predictor: 'dense' });
    await embedder.embed(TEXTS);
    const dense = embedder.stats();
    dense.layers.forEach((layer, i) => {
      const { tokens, computed, compared, needed, found } = lowrank.layers[i];
      assert.equal(layer.tokens, (tokens / 2) * 3);
      assert.equal(layer.computed - computed, (tokens / 2) * NEURONS);
      assert.deepEqual([layer.compared, layer.needed, layer.found], [compared, needed, found]);
    });
    await embedder.close();
  });

  test('a change keeps the totals', async () => {
    const embedder = await Embedder.load(MODEL, { workers: 1 });
    await embedder.embed(TEXTS);
    const { texts, tokens, stageSeconds } = embedder.stats();
    assert.ok(stageSeconds.ffn_up > 0 && stageSeconds.ffn_sparse === 0);
    await embedder.setSparse({ predictor: 'exact' });
    await embedder.embed(TEXTS);
    const after = embedder.stats();
    assert.deepEqual([after.texts, after.tokens], [2 * texts, 2 * tokens]);
    assert.equal(after.stageSeconds.ffn_up, stageSeconds.ffn_up);
    assert.ok(after.stageSeconds.ffn_sparse > 0);
    await embedder.close();
  });
});

test('one instance: setSparsity, and back to what the model says', async () => {
  const engine = await openEngine({ predictor: 'lowrank' });
  const sparser = await openEngine({ sparsity: 0.8 });
  const before = engine.embed(TEXTS);
  engine.setSparsity(0.8);
  assert.deepEqual(engine.embed(TEXTS), sparser.embed(TEXTS));
  assert.notDeepEqual(engine.embed(TEXTS), before);
  assert.throws(() => engine.setSparsity(1), { code: 'argument', field: 'sparsity' });
  assert.equal(engine.info().sparsity, 0.8);
  engine.setSparsity();
  assert.deepEqual(engine.embed(TEXTS), before);
  assert.equal(engine.info().sparsity, 0.6);
  engine.close();
  sparser.close();
  const dense = await Engine.open(
    await compileBuild(pickBuild()),
    new Uint8Array(readFileSync(smallModel())),
  );
  assert.throws(() => dense.setSparsity(0.5), { code: 'argument', field: 'sparsity' });
  dense.close();
});
