// SPDX-License-Identifier: Apache-2.0
// Libraries that take an embedder of the shape they know. Each row installs the real one, compiles against its types and
// searches with it, with import and require().

const TEXTS = `['A man is eating food.', 'Stocks fell today.', 'A cat sleeps on the sofa.']`;
const QUERY = `'someone has a meal'`;

/** A program that prints "found" unless it throws. @param {string} head @param {string} body */
const program = (head, body) => `${head}
const assert = require('node:assert');
(async () => {
  const embedder = await Embedder.load(undefined, { workers: 2 });
  const texts = ${TEXTS};
  ${body}
  await embedder.close();
  console.log('found');
})();
`;

/**
 * Writes one program twice: with require() and with import.
 * @param {[names: string, module: string][]} needed
 * @param {string} body
 * @returns {Record<string, string>}
 */
function programs(needed, body) {
  const all = [...needed, ['Embedder', 'wisp-engine']];
  const required = all.map(([names, from]) => `const { ${names} } = require('${from}');`);
  const imported = all.map(([names, from]) => `import { ${names} } from '${from}';`);
  const head = `import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);`;
  return {
    'main.cjs': program(required.join('\n'), body),
    'main.mjs': program([...imported, head].join('\n'), body),
  };
}

/**
 * @param {string[]} packages
 * @param {Record<string, string>} files of which typed.mts is compiled
 * @param {string} [node]
 * @returns {import('./environments.mjs').Environment}
 */
const library = (packages, files, node = 'node') => ({
  what: 'types, import and require',
  packages: [...packages, 'typescript@5.9', '@types/node@20'],
  files,
  steps: [
    'npx tsc --strict --noEmit --skipLibCheck --target es2022 --module nodenext typed.mts'.split(
      ' ',
    ),
    [node, 'main.cjs'],
    [node, 'main.mjs'],
  ],
  prints: /^found$/m,
});

/** @type {Record<string, import('./environments.mjs').Environment>} */
export const libraries = {};

libraries.langchain = library(['@langchain/core@1'], {
  ...programs(
    [
      ['FakeVectorStore', '@langchain/core/utils/testing'],
      ['WispEmbeddings', 'wisp-engine/langchain'],
    ],
    `const embeddings = new WispEmbeddings(embedder);
  const store = await FakeVectorStore.fromTexts(texts, [{}, {}, {}], embeddings);
  const [found] = await store.asRetriever(1).invoke(${QUERY});
  assert.equal(found.pageContent, texts[0]);`,
  ),
  'typed.mts': `import type { EmbeddingsInterface } from '@langchain/core/embeddings';
import { FakeVectorStore } from '@langchain/core/utils/testing';
import { Embedder } from 'wisp-engine';
import { WispEmbeddings } from 'wisp-engine/langchain';
const embeddings: EmbeddingsInterface = new WispEmbeddings(await Embedder.load());
export const store = await FakeVectorStore.fromTexts(['a'], [{}], embeddings);`,
});

for (const [major, version, node] of [
  ['7', 'v4', 'TOOLS/node24'],
  ['6', 'v3', 'node'],
]) {
  const options = `{ specificationVersion: '${version}' }`;
  const names = 'createProviderRegistry, customProvider, cosineSimilarity, embed, embedMany';
  libraries[`ai${major}`] = library(
    [`ai@${major}`],
    {
      ...programs(
        [
          [names, 'ai'],
          ['embeddingModel', 'wisp-engine/ai'],
        ],
        `const embeddingModels = { default: embeddingModel(embedder, ${options}) };
  const wisp = customProvider({ embeddingModels });
  const model = createProviderRegistry({ wisp }).embeddingModel('wisp:default');
  const { embeddings, usage } = await embedMany({ model, values: texts });
  const providerOptions = { wisp: { prompt: 'query: ' } };
  const { embedding } = await embed({ model, value: ${QUERY}, providerOptions });
  const [row] = await embedder.embed(${QUERY}, { prompt: 'query: ' });
  assert.deepEqual(embedding, [...row]);
  const scores = embeddings.map((each) => cosineSimilarity(each, embedding));
  assert.equal(scores.indexOf(Math.max(...scores)), 0);
  assert.equal(usage.tokens, (await embedder.countTokens(texts)).reduce((a, b) => a + b));
  const abortSignal = AbortSignal.abort();
  await assert.rejects(embed({ model, value: 'a', abortSignal }), { name: 'AbortError' });
  const wrong = embed({ model, value: 'a', providerOptions: { wisp: { size: 1 } }, maxRetries: 0 });
  await assert.rejects(wrong, /size: there is no such option/);`,
      ),
      'typed.mts': `import { customProvider, embed, type EmbeddingModel } from 'ai';
import { Embedder } from 'wisp-engine';
import { embeddingModel } from 'wisp-engine/ai';
const model: EmbeddingModel = embeddingModel(await Embedder.load(), ${options});
export const { embedding } = await embed({ model, value: 'a' });
export const provider = customProvider({
  embeddingModels: { default: embeddingModel(await Embedder.load(), ${options}) },
});`,
    },
    node,
  );
}

// The pipeline of transformers.js computes from wisp's rows, as if each were the one token of a text: its results have
// the shape that wisp's must have, and no model needs to be loaded from the Hub.
libraries.transformers = library(['@huggingface/transformers@4'], {
  ...programs(
    [
      ['FeatureExtractionPipeline, Tensor, cos_sim', '@huggingface/transformers'],
      ['pipeline', 'wisp-engine/pipeline'],
    ],
    `const how = { pooling: 'mean', normalize: true };
  const rows = await embedder.embed(texts);
  const model = async () => ({
    last_hidden_state: new Tensor('float32', rows.slice(), [3, 1, rows.dimensions]),
  });
  const attention_mask = new Tensor('int64', new BigInt64Array(3).fill(1n), [3, 1]);
  const tokenizer = () => ({ attention_mask });
  const theirs = new FeatureExtractionPipeline({ task: 'feature-extraction', model, tokenizer });
  const ours = await pipeline('feature-extraction', embedder);
  for (const more of [{}, { quantize: true }, { quantize: true, precision: 'ubinary' }]) {
    const expected = await theirs(texts, { ...how, ...more });
    const found = await ours(texts, { ...how, ...more });
    for (const name of ['type', 'size', 'location']) assert.equal(found[name], expected[name]);
    assert.deepEqual(found.dims, expected.dims);
    assert.equal(found.data.constructor, expected.data.constructor);
    expected.data.forEach((value, i) => assert.ok(Math.abs(value - found.data[i]) < 1e-6));
    assert.deepEqual(found[2].dims, expected[2].dims);
    assert.equal([...found].length, [...expected].length);
    assert.equal(found.tolist()[1].length, expected.tolist()[1].length);
    assert.deepEqual(new Tensor(found.type, found.data, found.dims).tolist(), found.tolist());
  }
  const query = (await ours(${QUERY}, how)).tolist()[0];
  const scores = (await ours(texts, how)).tolist().map((row) => cos_sim(row, query));
  assert.equal(scores.indexOf(Math.max(...scores)), 0);`,
  ),
  'typed.mts': `import type { Tensor } from '@huggingface/transformers';
import { pipeline } from 'wisp-engine/pipeline';
const extract = await pipeline('feature-extraction');
const found = await extract(['a'], { pooling: 'mean', normalize: true });
export const shared: Pick<Tensor, 'dims' | 'size' | 'location' | 'tolist'> = found;`,
});
