// SPDX-License-Identifier: Apache-2.0
// similarity and search, in Node and in pages, against loops over doubles.
import { search, similarity } from '../../../js/search.js';
import { check, inTime, rejects } from '../pool/checks.mjs';

/** @typedef {import('../../../types/search.js').Match} Match */

/** Numbers that look random, from -1 to 1. @param {number} seed */
function randoms(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state / 2 ** 31;
  };
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function cosine(a, b) {
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa && bb ? ab / Math.sqrt(aa) / Math.sqrt(bb) : 0;
}

/** @param {Match[]} matches */
const indices = (matches) => matches.map(({ index }) => index);

/** @type {Record<string, (env: { Embedder: typeof import('../../../js/node.js').Embedder, model: any }) => Promise<void>>} */
export const searchCases = {
  'search finds what a loop finds, for any number of rows and values': async () => {
    for (const [count, size] of [
      [1, 1],
      [7, 3],
      [100, 16],
      [333, 48],
      [1000, 385],
      [50, 40_000],
    ]) {
      const next = randoms(count);
      const rows = Float32Array.from({ length: count * size }, next);
      const query = Float32Array.from({ length: size }, next);
      const expected = Array.from({ length: count }, (_, index) => ({
        index,
        score: cosine(rows.subarray(index * size, (index + 1) * size), query),
      })).sort((a, b) => b.score - a.score);
      for (const k of [0, 1, 10, count, count + 5]) {
        const found = await inTime(search(null, query, { rows, k }));
        check(found.length === Math.min(k, count), `${found.length} of ${k}`);
        found.forEach(({ score, index }, i) => {
          const { score: own } = expected[i];
          check(Math.abs(score - own) < 1e-5, `place ${i}: ${score}, not ${own}`);
          const row = rows.subarray(index * size, (index + 1) * size);
          check(Math.abs(score - cosine(row, query)) < 1e-5, `place ${i}: another row's score`);
        });
      }
    }
  },

  'equal scores are in the order of the rows, whatever k is': async () => {
    const size = 20;
    const next = randoms(5);
    const kinds = [0, 1, 2].map(() => Array.from({ length: size }, next));
    const order = Array.from({ length: 200 }, (_, i) => (i * 7) % 3);
    const rows = order.map((kind) => kinds[kind]);
    const whole = indices(await search(null, kinds[1], { rows, k: 200 }));
    for (let k = 1; k <= 200; k += 13) {
      check(
        String(indices(await search(null, kinds[1], { rows, k }))) === String(whole.slice(0, k)),
        `k = ${k}`,
      );
    }
    for (let i = 1; i < whole.length; i++) {
      check(order[whole[i]] !== order[whole[i - 1]] || whole[i] > whole[i - 1], `at ${i}`);
    }
  },

  'rows that are not numbers are not matches; zeros and huge or tiny values are': async () => {
    const rows = [
      [NaN, 0, 0],
      [0, 0, 0],
      [3e38, 0, 3e38],
      [1e-40, 0, 0],
      [-1, 0, 0],
      [Infinity, 0, 0],
      [1e-3, 1e-3, 0],
      [-0, NaN, 1],
    ];
    const found = await search(undefined, [2, 0, 0], { rows });
    check(String(indices(found)) === '3,2,6,1,4', String(indices(found)));
    const scores = [1, Math.SQRT1_2, Math.SQRT1_2, 0, -1];
    found.forEach(({ score }, i) => check(Math.abs(score - scores[i]) < 1e-6, `${i}: ${score}`));
    const none = await search(null, [0, 0, 0], { rows: [[1, 2, 3]] });
    check(none[0].score === 0, 'the score of a query of zeros');
    for (const query of [
      [NaN, 1, 1],
      [Infinity, 0, 0],
    ]) {
      await rejects(search(null, query, { rows }), 'argument', /query/);
    }
  },

  'texts are embedded, with as many dimensions as the rows have': async ({ Embedder, model }) => {
    const embedder = await Embedder.load(model, { workers: 1 });
    const texts = Array.from({ length: 50 }, (_, i) => `water ${i}`);
    for (const dimensions of [embedder.dimensions, 5]) {
      const rows = await embedder.embed(texts, { dimensions });
      const [best, ...others] = await inTime(search(embedder, 'water 17', { rows, k: 3 }));
      check(best.index === 17 && Math.abs(best.score - 1) < 1e-6, JSON.stringify(best));
      check(others.length === 2, 'two others');
      const plain = new Float32Array(rows.buffer);
      const again = await search(embedder, 'water 17', { rows: plain, dimensions, k: 1 });
      check(again[0].index === 17, 'a plain array');
      const single = await search(embedder, await embedder.embed('water 17', { dimensions }), {
        rows,
      });
      check(single[0].index === 17, 'a row as the query');
      const listed = await search(embedder, 'water 17', { rows: [...rows], k: 1 });
      check(listed[0].index === 17, 'an array of rows');
      const score = await similarity(embedder, 'water 3', rows.row(8));
      check(Math.abs(score - cosine(rows.row(3), rows.row(8))) < 1e-6, `${score}`);
      check(
        Math.abs((await similarity(embedder, rows.row(8), 'water 3')) - score) < 1e-6,
        'turned',
      );
    }
    const prompted = await similarity(embedder, 'a', 'b', { prompt: 'query: ' });
    const written = await similarity(embedder, 'query: a', 'query: b');
    check(Math.abs(prompted - written) < 1e-6, 'the prompt is lost');
    check(Math.abs((await similarity(embedder, '', '')) - 1) < 1e-6, 'empty texts');
    check((await search(embedder, 'a', { rows: [] })).length === 0, 'matches of no rows');
    check((await search(embedder, 'a', { rows: new Float32Array(0) })).length === 0, 'no rows');
    const signal = AbortSignal.abort();
    const rows = await embedder.embed(texts);
    await rejects(search(embedder, 'a', { rows, signal }), 'cancelled');
    await rejects(similarity(embedder, 'a', 'b', { signal }), 'cancelled');
    const abort = new AbortController();
    const call = search(null, rows.row(0), { rows, signal: abort.signal });
    abort.abort();
    await rejects(call, 'cancelled');
    await embedder.close();
    await rejects(search(embedder, 'a', { rows }), 'closed');
    await rejects(similarity(embedder, 'a', 'b'), 'closed');
    check(
      (await search(embedder, rows.row(0), { rows }))[0].index === 0,
      'a vector needs no worker',
    );
  },

  'vectors alone': async () => {
    check((await similarity(null, [1, 0], [1, 0])) === 1, 'the same');
    check((await similarity(null, [1, 0], new Float32Array([0, 2]))) === 0, 'across');
    check((await similarity(null, new Float64Array([1, 0]), [-2, 0])) === -1, 'against');
    check((await similarity(null, [0, 0], [1, 1])) === 0, 'zeros');
    check(Number.isNaN(await similarity(null, [NaN, 0], [1, 1])), 'NaN');
  },

  'wrong arguments are refused': async () => {
    const rows = [[1, 2]];
    for (const [query, options, field] of /** @type {any[][]} */ ([
      [[1, 2], undefined, 'options'],
      [[1, 2], null, 'options'],
      [[1, 2], {}, 'rows'],
      [[1, 2], { rows: 'a' }, 'rows'],
      [[1, 2], { rows: {} }, 'rows'],
      [[1, 2], { rows: new Float64Array(2) }, 'rows'],
      [[1, 2], { rows: new Float32Array(3) }, 'rows'],
      [[1, 2], { rows: new Float32Array(6), dimensions: 3 }, 'query'],
      [[1, 2], { rows, dimensions: 3 }, 'dimensions'],
      [[1, 2], { rows, top: 3 }, 'top'],
      [[1, 2], { rows, k: -1 }, 'k'],
      [[1, 2], { rows, k: 1.5 }, 'k'],
      [[1, 2], { rows, k: '3' }, 'k'],
      [[1, 2], { rows: [[1, 2], [1]] }, 'rows[1]'],
      [[1, 2], { rows: [[1, 2], 'a'] }, 'rows[1]'],
      [[1, 2], { rows: [[1, 2], undefined] }, 'rows[1]'],
      [
        [1, 2],
        {
          rows: [
            [1, 2],
            ['1', 2],
          ],
        },
        'rows[1][0]',
      ],
      [[1, 2], { rows: [[]] }, 'dimensions'],
      [[1], { rows }, 'query'],
      [[], { rows }, 'query'],
      [[1, '2'], { rows }, 'query[1]'],
      [null, { rows }, 'query'],
      [7, { rows }, 'query'],
      ['text', { rows }, 'embedder'],
    ])) {
      const error = await rejects(search(null, query, options), 'argument');
      check(error.field === field, `${field}: ${error.message}`);
    }
    for (const [a, b, field] of /** @type {any[][]} */ ([
      [[1], [1, 2], 'b'],
      [null, [1], 'a'],
      [[1], undefined, 'b'],
      ['a', [1], 'embedder'],
    ])) {
      const error = await rejects(similarity(null, a, b), 'argument');
      check(error.field === field, `${field}: ${error.message}`);
    }
    await rejects(similarity(null, [1], [1], /** @type {any} */ (null)), 'argument');
    await rejects(similarity(null, [1], [1], /** @type {any} */ ({ k: 1 })), 'argument');
  },
};
