// SPDX-License-Identifier: Apache-2.0
// wisp-engine/rerank: tiny cross-encoders beside sentence-transformers' scores (tests/oracle/make_rankers.py), in Node by
// modules and the addon, and in a page.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { WispError } from '../../js/base/errors.js';
import { serve } from '../../js/program/serve.js';
import { Reranker } from '../../js/rerank-node.js';
import { launch } from './browsers.mjs';
import { ADDON, ROOT, noAddon, noTool, smallModel } from './support.mjs';

const MODELS = [
  'rank-bert',
  'rank-roberta',
  'rank-distilbert',
  'rank-electra',
  'rank-deberta',
  'colbert-bert',
  'colbert-modernbert',
];

/** Models that the modules of encoders do not have. */
const NATIVE = ['rank-qwen3'];

/** The most that a score may differ from sentence-transformers' in f32. */
const MOST_ERROR = 2e-5;

/** @typedef {{ query: string, texts: string[], scores: number[] }} Case */

/** @param {string} name @returns {Case[]} */
const golden = (name) =>
  JSON.parse(readFileSync(`${ROOT}tests/data/models/${name}/golden.json`, 'utf8'));

/** @param {ArrayLike<number>} scores @param {number[]} wanted @param {string} what */
function assertNear(scores, wanted, what) {
  assert.equal(scores.length, wanted.length, what);
  wanted.forEach((score, i) => assert.ok(Math.abs(scores[i] - score) <= MOST_ERROR, `${what}, ${i}: ${scores[i]}, ${score}`)); // prettier-ignore
}

/** @type {Record<string, import('../../types/rerank.js').RerankerLoadOptions>} */
const WAYS = {
  'two workers': { backend: 'wasm', workers: 2 },
  'the calling thread': { backend: 'wasm', workers: 0 },
  'the addon': { addon: ADDON, workers: 2 },
  'the addon on the calling thread': { addon: ADDON, workers: 0 },
};

for (const [way, options] of Object.entries(WAYS)) {
  describe(way, { skip: options.addon ? noAddon : false }, () => {
    for (const name of options.addon ? [...MODELS, ...NATIVE] : MODELS) {
      test(name, async () => {
        const reranker = await Reranker.load(smallModel(name), { ...options, compute: 'f32' });
        assert.equal(reranker.info().pooling, NATIVE.includes(name) ? '' : name.startsWith('colbert') ? 'tokens' : 'rank'); // prettier-ignore
        assert.equal(reranker.info().workers, options.workers);
        for (const { query, texts, scores } of golden(name)) {
          const found = await reranker.scores(query, texts);
          assert.equal(found.constructor, Float32Array);
          assertNear(found, scores, `${name}, ${query}`);
          const alone = await Promise.all(texts.map((text) => reranker.scores(query, [text])));
          assert.deepEqual(alone.map(([score]) => score), [...found]); // prettier-ignore
        }
        await reranker.close();
      });
    }
  });
}

describe('a reranker', () => {
  /** @type {Reranker} */
  let reranker;
  const [{ query, texts, scores }, other] = golden('rank-bert');
  before(async () => {
    reranker = await Reranker.load(smallModel('rank-bert'), { backend: 'wasm', workers: 2 });
  });
  after(() => reranker.close());

  test('ranks documents, best first, and those with equal scores in their order', async () => {
    const order = scores
      .map((score, index) => ({ score, index }))
      .sort((a, b) => b.score - a.score || a.index - b.index);
    const ranked = await reranker.rank(query, texts);
    assertNear(ranked.map(({ score }) => score), order.map(({ score }) => score), 'ranked'); // prettier-ignore
    assert.deepEqual(Object.keys(ranked[0]), ['index', 'score']);
    const best = await reranker.rank(query, texts, { topK: 2, returnDocuments: true });
    assert.deepEqual(best, ranked.slice(0, 2).map((one) => ({ ...one, text: texts[one.index] }))); // prettier-ignore
    const same = await reranker.rank(query, ['a', 'a', 'a']);
    assert.deepEqual(same.map(({ index }) => index), [0, 1, 2]); // prettier-ignore
  });

  test('scores pairs of several queries', async () => {
    const pairs = texts.flatMap((text) => [[query, text], [other.query, text]]); // prettier-ignore
    const found = await reranker.predict(/** @type {[string, string][]} */ (pairs));
    assertNear(found, texts.flatMap((_, i) => [scores[i], other.scores[i]]), 'pairs'); // prettier-ignore
    assert.equal((await reranker.predict([])).length, 0);
    assert.equal((await reranker.scores(query, [])).length, 0);
  });

  test('takes a query with a NUL, and many texts in their order', async () => {
    const cut = await reranker.scores('the', [texts[0]]);
    const whole = await reranker.scores('the\0 cat sat on', [texts[0]]);
    assert.notEqual(cut[0], whole[0]);
    const many = Array.from({ length: 700 }, (_, i) => `${'cat '.repeat(i % 40)}sat`);
    const found = await reranker.scores(query, many);
    const distinct = await reranker.scores(query, many.slice(0, 40));
    many.forEach((_, i) => assert.equal(found[i], distinct[i % 40], String(i)));
  });

  test('reports progress, and is aborted', async () => {
    /** @type {{ done: number, total: number }[]} */
    const seen = [];
    await reranker.scores(query, texts, { onProgress: (progress) => void seen.push(progress) });
    assert.deepEqual(seen.at(-1), { done: texts.length, total: texts.length });
    await assert.rejects(reranker.scores(query, texts, { signal: AbortSignal.abort() }), {
      name: 'AbortError',
    });
  });

  test('says what is wrong with arguments', async () => {
    /** @type {[() => Promise<unknown>, RegExp][]} */
    const wrong = [
      [() => reranker.scores(/** @type {any} */ (1), texts), /^query: number 1 is not a string$/],
      [() => reranker.scores(query, /** @type {any} */ ('text')), /^texts: not an array of strings$/], // prettier-ignore
      [() => reranker.scores(query, /** @type {any} */ ([1])), /^texts\[0\]: number 1 is not a string$/], // prettier-ignore
      [() => reranker.predict(/** @type {any} */ ([['a']])), /^pairs\[0\]: not a pair of texts$/],
      [() => reranker.rank(query, texts, { topK: 0 }), /^topK: number 0 is not a whole number/],
      [() => reranker.rank(query, texts, /** @type {any} */ ({ top: 1 })), /^top: there is no such option/], // prettier-ignore
    ];
    for (const [call, message] of wrong) {
      await assert.rejects(call, (error) => {
        assert.ok(error instanceof WispError && error.code === 'argument');
        assert.match(error.message, message);
        return true;
      });
    }
  });
});

test('a model that makes embeddings is refused, and so is none', async () => {
  for (const backend of /** @type {const} */ (['wasm', 'auto']))
    await assert.rejects(Reranker.load(smallModel('cls12'), { backend, workers: 0 }), {
      code: 'unsupported',
      field: 'pooling',
    });
  const load = /** @type {(...given: any[]) => Promise<unknown>} */ (Reranker.load);
  await assert.rejects(load(), { code: 'argument', field: 'source' });
  for (const name of ['threads', 'cold', 'memory'])
    await assert.rejects(load(smallModel('rank-bert'), { [name]: 1 }), { field: name });
});

test('the modules have other encoders, too', async () => {
  const { Embedder } = await import('../../js/node.js');
  const { pickBuild } = await import('../../js/calls/load.js');
  const wasm = new URL(`../../js/wisp-encoders-${pickBuild()}.wasm`, import.meta.url);
  const texts = ['the cat sat on the mat', 'naïve café'];
  for (const name of ['modernbert', 'xlm-roberta']) {
    const embedder = await Embedder.load(smallModel(name), { wasm, workers: 0 });
    const rows = await embedder.embed(texts, { prompt: '' });
    const inFloats = /** @type {const} */ ({ addon: ADDON, compute: 'f32' });
    const native = noAddon ? undefined : await Embedder.load(smallModel(name), inFloats);
    const wanted = await native?.embed(texts, { prompt: '' });
    if (wanted) rows.forEach((value, i) => assert.ok(Math.abs(value - wanted[i]) < 1e-5, name)); // prettier-ignore
    await native?.close();
    await embedder.close();
  }
});

describe('a page', { skip: noTool('chromium') }, () => {
  /** @type {import('./browsers.mjs').Tab} */
  let tab;
  /** @type {Awaited<ReturnType<typeof serve>>} */
  let server;
  before(async () => {
    server = await serve();
    tab = await launch.chromium();
    await tab.open(`${server.origin}/tests/js/page/blank.html`);
  });
  after(async () => {
    await tab.close();
    await server.close();
  });

  for (const workers of [2, 0]) {
    test(`scores by ${workers} workers`, async () => {
      const [{ query, texts, scores }] = golden('rank-bert');
      smallModel('rank-bert');
      const found = await tab.call('rerank', 'rank-bert', query, texts, workers);
      assertNear(found.scores, scores, 'the page');
      const best = scores.indexOf(Math.max(...scores));
      assert.equal(found.best[0].index, best);
      assert.equal(found.best[0].text, texts[best]);
      assert.equal(found.workers, workers);
    });
  }
});
