// SPDX-License-Identifier: Apache-2.0
// Bytes fetched over texts embedded, and how near rows are without cold neurons, in Node on one thread:
//   node bench/cold/curve.mjs [--texts 2000] [--kinds q8s,q4] [--json FILE] [--svg BASE]
// Neither time nor other work on the machine changes these figures.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import '../../js/cold-node.js';
import { Embedder } from '../../js/node.js';
import { HOT_SHARES, checkRow, cosine, modelOf, nativeRows, textsOf } from './models.mjs';
import { lines } from './plot.mjs';

const { values } = parseArgs({
  options: {
    texts: { type: 'string', default: '2000' },
    kinds: { type: 'string', default: 'q8s,q4' },
    json: { type: 'string' },
    svg: { type: 'string' },
  },
});
const WISP = fileURLToPath(new URL('../../build/wisp', import.meta.url));
const MARKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].filter((n) => n <= +values.texts);
const SKIP_SHARES = [0.3, 0.5, 0.7, 0.9, 0.95, 0.99];
const CORPORA = /** @type {const} */ (['sts', 'wikitext']);

/** @param {(typeof CORPORA)[number]} corpus */
const read = (corpus) =>
  readFileSync(textsOf(corpus), 'utf8').trim().split('\n').slice(0, +values.texts);

/** @param {string} model */
const open = (model) =>
  Embedder.load(model, {
    cold: { mode: 'wait', complete: false, store: false },
    workers: 0,
    predictor: 'lowrank',
  });

/** @param {Embedder} embedder @returns {import('../../types/index.js').ColdTotals | undefined} */
const coldOf = (embedder) => /** @type {any} */ (embedder.stats()).cold;

/**
 * Embeds all texts natively, with or without cold neurons.
 * @param {string} model
 * @param {(typeof CORPORA)[number]} corpus
 * @param {'all' | 'skip'} mode
 */
function embedAll(model, corpus, mode) {
  const args = ['--predictor', 'lowrank', '--cold', mode];
  const { rows, stats } = nativeRows(model, read(corpus), ...args);
  return { rows, skipped: Number(/(\d+) neurons were skipped/.exec(stats)?.[1] ?? NaN) };
}

const curves = [];
/** @type {{ kind: string, corpus: string, hot: number, hotBytes: number, mean: number, least: number, skipped: number }[]} */
const skips = [];
for (const kind of values.kinds.split(','))
  for (const corpus of CORPORA) {
    const texts = read(corpus);
    const all = embedAll(modelOf(kind, HOT_SHARES[1]), corpus, 'all').rows;
    for (const hot of HOT_SHARES.slice(1)) {
      const model = modelOf(kind, hot);
      const embedder = await open(model);
      const opened = coldOf(embedder)?.fetchedBytes ?? 0;
      const points = [];
      for (const [i, text] of texts.entries()) {
        const [row] = await embedder.embed([text]);
        checkRow(`${model}: ${text}`, row, all[i]);
        const { fetchedBytes = 0, requests = 0 } = coldOf(embedder) ?? {};
        if (MARKS.includes(i + 1)) points.push({ texts: i + 1, bytes: fetchedBytes, requests });
      }
      await embedder.close();
      curves.push({ kind, corpus, hot, fileBytes: statSync(model).size, opened, points });
      console.error(`${kind} ${corpus} ${hot}: ${points.map(({ bytes }) => (bytes / 1e6).toFixed(2)).join(' ')}`); // prettier-ignore
    }
    for (const hot of SKIP_SHARES) {
      const model = modelOf(kind, hot);
      const { rows, skipped } = embedAll(model, corpus, 'skip');
      const { stdout: table } = spawnSync(WISP, ['inspect', model], { encoding: 'utf8' });
      const hotBytes = Number(/token_embd\.cold .* at (\d+)/.exec(table)?.[1]);
      const cosines = rows.map((row, i) => cosine(row, all[i]));
      const mean = cosines.reduce((sum, value) => sum + value, 0) / cosines.length;
      const least = Math.min(...cosines);
      skips.push({ kind, corpus, hot, hotBytes, mean, least, skipped: skipped / texts.length });
      console.error(`${kind} ${corpus} skip ${hot}: ${mean.toFixed(4)} ${least.toFixed(4)}`);
    }
    if (values.json) writeFileSync(values.json, `${JSON.stringify({ curves, skips }, null, 1)}\n`);
  }

const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(2);
console.log(`| model | texts | opened | ${MARKS.join(' | ')} | requests |`);
console.log(`|---|---|---|${MARKS.map(() => '---|').join('')}---|`);
for (const { kind, corpus, hot, opened, points } of curves)
  console.log(`| ${kind}, hot ${hot} | ${corpus} | ${megabytes(opened)} | ${points.map(({ bytes }) => megabytes(bytes)).join(' | ')} | ${points.at(-1)?.requests} |`); // prettier-ignore
console.log('\n| model | texts | beginning, MB | neurons left out of a text | mean cosine | least |\n|---|---|---|---|---|---|'); // prettier-ignore
for (const { kind, corpus, hot, hotBytes, mean, least, skipped } of skips)
  console.log(`| ${kind}, hot ${hot} | ${corpus} | ${megabytes(hotBytes)} | ${skipped.toFixed(0)} | ${mean.toFixed(4)} | ${least.toFixed(4)} |`); // prettier-ignore
if (values.svg) {
  const named = { sts: 'STS-B', wikitext: 'WikiText' };
  writeFileSync(
    `${values.svg}-bytes.svg`,
    lines({
      title: 'Megabytes fetched with wait; 2,000 tokens are hot',
      below: 'texts embedded, one after the other',
      logarithmic: true,
      xs: MARKS,
      ys: [0, 5, 10, 15, 20],
      lines: curves
        .filter(({ hot }) => hot !== HOT_SHARES[0])
        .map(({ kind, corpus, hot, points }) => ({
          name: `${kind}, hot ${hot}, ${named[corpus]}`,
          points: points.map(({ texts, bytes }) => [texts, bytes / 1e6]),
        })),
    }),
  );
  writeFileSync(
    `${values.svg}-skip.svg`,
    lines({
      title: 'Cosine to the exact embedding with skip',
      below: 'share of needed activations whose neurons are hot',
      xs: SKIP_SHARES.filter((hot) => hot !== 0.99),
      ys: [-0.2, 0, 0.2, 0.4, 0.6, 0.8, 1],
      lines: skips.length
        ? values.kinds.split(',').flatMap((kind) =>
            CORPORA.flatMap((corpus) =>
              /** @type {const} */ (['mean', 'least']).map((which) => ({
                name: `${kind}, ${named[corpus]}, ${which}`,
                points: skips
                  .filter((each) => each.kind === kind && each.corpus === corpus && each.hot < 0.99)
                  .map((each) => /** @type {[number, number]} */ ([each.hot, each[which]])),
              })),
            ),
          )
        : [],
    }),
  );
}
