// SPDX-License-Identifier: Apache-2.0
// How often one call with many texts waits for bytes of its model, in Node: node bench/cold/rounds.mjs [MODEL...]
// Requests are answered 40 ms later. Neither time nor other work on the machine changes the counts, but for which
// requests are under way when the next batch asks.
import { readFileSync } from 'node:fs';
import { Ranges } from '../../js/ranges/cold-ranges.js';
import '../../js/cold-node.js';
import { Embedder } from '../../js/node.js';
import { serveRanges } from '../../tests/js/range-server.mjs';
import { modelOf, textsOf } from './models.mjs';

const ROUND_TRIP_MS = 40;
const COUNTS = [1, 10, 100, 500, 2000];
const CORPORA = /** @type {const} */ (['sts', 'wikitext']);

/** Waits of workers for bytes that were not here, and for how long. */
let waits = 0;
let waited = 0;
const { need } = Ranges.prototype;
Ranges.prototype.need = async function (ranges, signal) {
  const isHere = ranges.every((range) => this.bytes.missing(range).length === 0);
  const start = performance.now();
  const pieces = await need.call(this, ranges, signal);
  if (!isHere) {
    waits++;
    waited += performance.now() - start;
  }
  return pieces;
};

/** @param {Embedder} embedder @returns {import('../../types/index.js').ColdTotals} */
const coldOf = (embedder) => /** @type {any} */ (embedder.stats()).cold;

const models = process.argv.slice(2);
if (models.length === 0) models.push(modelOf('q8t'), modelOf('q8s', 0.5));
console.log(
  '| model | texts | workers | of one call | waits | waited, s | requests | fetched, MB |',
);
console.log('|---|---|---|---|---|---|---|---|');
for (const model of models) {
  const server = await serveRanges(readFileSync(model));
  server.fault = (_, next) => void setTimeout(next, ROUND_TRIP_MS);
  for (const corpus of CORPORA) {
    const texts = readFileSync(textsOf(corpus), 'utf8').trim().split('\n');
    for (const [workers, counts] of /** @type {const} */ ([
      [1, COUNTS],
      [2, [2000]],
    ]))
      for (const count of counts) {
        const cold = { mode: /** @type {'wait'} */ ('wait'), complete: false, store: false };
        const embedder = await Embedder.load(server.url, { workers, cold });
        const before = coldOf(embedder);
        waits = waited = 0;
        await embedder.embed(texts.slice(0, count));
        const { requests, fetchedBytes } = coldOf(embedder);
        const name = model.split('/').at(-1);
        console.log(`| ${name} | ${corpus} | ${workers} | ${count} | ${waits} | ${(waited / 1000).toFixed(2)} | ${requests - before.requests} | ${((fetchedBytes - before.fetchedBytes) / 1e6).toFixed(2)} |`); // prettier-ignore
        await embedder.close();
      }
  }
  await server.close();
}
process.exit(0);
