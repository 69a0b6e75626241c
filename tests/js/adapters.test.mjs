// SPDX-License-Identifier: Apache-2.0
// wisp-engine/langchain, wisp-engine/ai and wisp-engine/pipeline, without the packages that they are for: tests/compat/
// has those.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import * as ai from '../../js/ai.js';
import * as langchain from '../../js/langchain.js';
import { Embedder } from '../../js/node.js';
import * as pipelines from '../../js/pipeline-node.js';
import { smallModel } from './support.mjs';

const require = createRequire(import.meta.url);
const kinds = {
  import: { ...langchain, ...ai, ...pipelines },
  require: {
    ...require('../../js/langchain.cjs'),
    ...require('../../js/ai.cjs'),
    ...require('../../js/pipeline-node.cjs'),
  },
};

/** @type {Embedder} */
let embedder;
/** @type {number[][]} rows of 'one' and 'two' */
let expected;
before(async () => {
  embedder = await Embedder.load(smallModel('prompted'), { workers: 1, backend: 'wasm' });
  const rows = await embedder.embed(['one', 'two']);
  expected = [0, 1].map((i) => Array.from(rows.row(i)));
});
after(() => embedder.close());

/** @param {string} text @param {object} options */
const rowOf = async (text, options) => Array.from((await embedder.embed(text, options)).row(0));

for (const [kind, { WispEmbeddings, embeddingModel, pipeline, WispError }] of Object.entries(
  kinds,
)) {
  describe(`${kind}: langchain`, () => {
    test('gives arrays of numbers', async () => {
      const embeddings = new WispEmbeddings(embedder);
      assert.ok(embeddings instanceof WispEmbeddings);
      assert.deepEqual(await embeddings.embedDocuments(['one', 'two']), expected);
      assert.deepEqual(await embeddings.embedQuery('two'), expected[1]);
      assert.deepEqual(await embeddings.embedDocuments([]), []);
    });

    test('has a prompt for each side, and dimensions', async () => {
      const options = { queryPrompt: 'query', documentPrompt: 'to find: ', dimensions: 3 };
      const embeddings = new WispEmbeddings(embedder, options);
      const [row] = await embeddings.embedDocuments(['one']);
      assert.deepEqual(row, await rowOf('one', { prompt: 'to find: ', dimensions: 3 }));
      const query = await rowOf('one', { prompt: 'query', dimensions: 3 });
      assert.deepEqual(await embeddings.embedQuery('one'), query);
      assert.notDeepEqual(row, query);
    });

    test('refuses what is wrong', async () => {
      const wrong = async (/** @type {any[]} */ ...given) =>
        new WispEmbeddings(...given).embedQuery('a');
      await assert.rejects(wrong({}), { code: 'argument', field: 'embedder' });
      await assert.rejects(wrong(embedder, { prompt: 'a' }), { field: 'prompt' });
      await assert.rejects(wrong(embedder, { queryPrompt: 1 }), WispError);
      await assert.rejects(new WispEmbeddings(embedder).embedQuery(1), { field: 'document' });
      const signal = AbortSignal.abort();
      await assert.rejects(wrong(embedder, { signal }), { code: 'cancelled' });
    });
  });

  describe(`${kind}: ai`, () => {
    test('is a model of version 4, or 3', async () => {
      const model = embeddingModel(embedder);
      const { specificationVersion, provider, modelId } = model;
      assert.deepEqual([specificationVersion, provider], ['v4', 'wisp']);
      assert.equal(modelId, embedder.info().name);
      const found = await model.doEmbed({ values: ['one', 'two'] });
      const counts = await embedder.countTokens(['one', 'two']);
      assert.deepEqual(found.embeddings, expected);
      assert.deepEqual(found.usage, { tokens: counts[0] + counts[1] });
      assert.deepEqual(found.warnings, []);
      const third = embeddingModel(embedder, { specificationVersion: 'v3' });
      assert.equal(third.specificationVersion, 'v3');
    });

    test('a call has its own prompt and dimensions', async () => {
      const model = embeddingModel(embedder, { prompt: 'query', dimensions: 4 });
      const first = async (/** @type {object} */ more) =>
        (await model.doEmbed({ values: ['one'], ...more })).embeddings[0];
      assert.deepEqual(await first({}), await rowOf('one', { prompt: 'query', dimensions: 4 }));
      const own = { prompt: 'x: ', dimensions: 2 };
      assert.deepEqual(await first({ providerOptions: { wisp: own } }), await rowOf('one', own));
      assert.equal((await first({ dimensions: 3 })).length, 3);
      const aborted = first({ abortSignal: AbortSignal.abort() });
      await assert.rejects(aborted, { code: 'cancelled', name: 'AbortError' });
      const wrong = first({ providerOptions: { wisp: { size: 2 } } });
      await assert.rejects(wrong, { code: 'argument', field: 'size' });
    });

    test('refuses what is wrong', async () => {
      const wrong = async (/** @type {any[]} */ ...given) =>
        embeddingModel(...given).doEmbed({ values: [] });
      await assert.rejects(wrong(embedder, { specificationVersion: 'v9' }), {
        field: 'specificationVersion',
      });
      await assert.rejects(wrong(embedder, { prompt: 1 }), { field: 'prompt' });
    });
  });

  describe(`${kind}: pipeline`, () => {
    const how = { pooling: 'mean', normalize: true };

    test('gives tensors', async () => {
      const extract = await pipeline('feature-extraction', embedder);
      const { pooling } = embedder.info();
      const tensor = await extract(['one', 'two'], { ...how, pooling });
      const [size] = [embedder.dimensions];
      assert.deepEqual([tensor.type, tensor.dims, tensor.size], ['float32', [2, size], 2 * size]);
      assert.deepEqual(tensor.tolist(), expected);
      assert.deepEqual(tensor[1].dims, [size]);
      assert.deepEqual(tensor[1].tolist(), expected[1]);
      assert.deepEqual([...tensor[1]], expected[1]);
      assert.equal(tensor[1][2], expected[1][2]);
      assert.equal(tensor[2], undefined);
      assert.deepEqual([...tensor].map((row) => row.data), [0, 1].map((i) => tensor[i].data)); // prettier-ignore
      assert.deepEqual((await extract('one', { ...how, pooling })).dims, [1, size]);
      assert.equal(extract.embedder, embedder);
    });

    test('packs bits', async () => {
      const extract = await pipeline('feature-extraction', embedder);
      const { pooling } = embedder.info();
      for (const precision of ['binary', 'ubinary']) {
        const type = precision === 'binary' ? 'int8' : 'uint8';
        const tensor = await extract(['one', 'two'], { ...how, pooling, quantize: true, precision }); // prettier-ignore
        assert.deepEqual([tensor.type, tensor.dims], [type, [2, embedder.dimensions / 8]]);
        const bits = expected[1].slice(8, 16).map((value) => (value > 0 ? '1' : '0'));
        assert.equal(tensor[1][1], parseInt(bits.join(''), 2) - (type === 'int8' ? 128 : 0));
      }
    });

    test('loads a model, and closes it', async () => {
      const options = { workers: 0, backend: 'wasm' };
      const extract = await pipeline('feature-extraction', smallModel('prompted'), options);
      assert.equal(extract.embedder.info().workers, 0);
      await extract.dispose();
      await assert.rejects(extract('one', { ...how, pooling: embedder.info().pooling }), {
        code: 'closed',
      });
    });

    test('refuses what the model does not do', async () => {
      const extract = await pipeline('feature-extraction', embedder);
      const { pooling } = embedder.info();
      const other = pooling === 'mean' ? 'cls' : 'mean';
      await assert.rejects(extract('one'), { code: 'unsupported', field: 'pooling' });
      await assert.rejects(extract('one', { ...how, pooling: other }), { field: 'pooling' });
      await assert.rejects(extract('one', { pooling }), { code: 'unsupported', field: 'normalize' }); // prettier-ignore
      await assert.rejects(extract('one', { ...how, pooling, precision: 'x' }), {
        field: 'precision',
      });
      await assert.rejects(extract('one', { ...how, pool: 1 }), WispError);
      await assert.rejects(pipeline('summarization'), { code: 'unsupported', field: 'task' });
      await assert.rejects(pipeline('feature-extraction', embedder, {}), { field: 'options' });
    });
  });
}
