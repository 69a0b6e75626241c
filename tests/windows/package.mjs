// SPDX-License-Identifier: Apache-2.0
// Usage: package.mjs ADDON REPORT. The package in Node for Windows: embeds the texts of golden-default.jsonl with
// WebAssembly and with the addon, and compares with PyTorch's rows in golden-default.f32; writes a text with both, and
// compares with that of the native program on Linux. Writes REPORT, because Node's standard output cannot be a pipe in Wine.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { argv, exit, platform } from 'node:process';
import { Generator } from '../../js/generate-node.js';
import { Embedder } from '../../js/node.js';

const STORY =
  ', there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball.';
const SIZE = 384;
const LEAST_COSINE = 0.99;
const [addon, report] = argv.slice(2);
const data = new URL('../data/', import.meta.url);
const texts = readFileSync(new URL('golden-default.jsonl', data), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line).text);
const golden = readFileSync(new URL('golden-default.f32', data));
const expected = new Float32Array(golden.buffer, golden.byteOffset, texts.length * SIZE);

/** @param {readonly Float32Array[]} rows */
const leastCosine = (rows) =>
  rows.reduce((least, row, i) => {
    const of = expected.subarray(i * SIZE, (i + 1) * SIZE);
    return Math.min(least, row.reduce((sum, value, k) => sum + value * of[k], 0)); // prettier-ignore
  }, 1);

/** @param {import('../../types/index.js').LoadOptions} options */
async function check(options) {
  const embedder = await Embedder.load(undefined, options);
  const rows = [...(await embedder.embed(texts))];
  const [alone] = await embedder.embed([texts[9]]);
  const { backend, kernels, build } = embedder.info();
  await embedder.close();
  const generator = await Generator.load(undefined, { threads: 2, ...options });
  const pieces = [];
  for await (const piece of generator.generate('Once upon a time', { maxTokens: 40 }))
    pieces.push(piece);
  const isStory = pieces.join('') === STORY && generator.info().backend === backend;
  await generator.close();
  const cosine = leastCosine(rows);
  const isSame = alone.every((value, i) => value === rows[9][i]);
  return { backend, kernels, build, cosine, good: cosine >= LEAST_COSINE && isSame && isStory };
}

/** @type {unknown[]} */
const found = [];
let good = platform === 'win32';
try {
  for (const options of [
    { backend: /** @type {const} */ ('wasm'), workers: 2 },
    { addon: resolve(addon) },
  ]) {
    const result = await check(options);
    found.push(result);
    good &&= result.good && result.backend === (options.addon ? 'native' : 'wasm');
  }
} catch (error) {
  good = false;
  found.push(String(error));
}
writeFileSync(report, `${JSON.stringify({ platform, good, found }, null, 2)}\n`);
exit(good ? 0 : 1);
