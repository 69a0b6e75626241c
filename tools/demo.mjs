// SPDX-License-Identifier: Apache-2.0
// What "make demo" shows: the sample sentences embedded natively and through WebAssembly with the
// default model, how far the two agree, how long each took, and the nearest sentences to a query.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { pickBuild } from '../js/builds.js';
import { Engine } from '../js/engine.js';
import { DEFAULT_MODEL, compileBuild, readBytes } from '../js/platform-node.js';

const QUERY = process.argv[2] ?? 'What do plants live on?';
const SHOWN = 5;
const PROGRAM = fileURLToPath(new URL('../build/wisp', import.meta.url));
const SAMPLE = new URL('../web-demo/sample.txt', import.meta.url);

/**
 * Rows of the texts by the native program, with the seconds of its whole run.
 * @param {string[]} texts
 */
function embedNatively(texts) {
  const start = performance.now();
  const run = spawnSync(PROGRAM, ['embed', '--format', 'f32', '--input', 'ndjson'], {
    input: texts.map((text) => JSON.stringify(text)).join('\n'),
    maxBuffer: 1 << 28,
  });
  if (run.status !== 0) throw new Error(`${PROGRAM}: ${run.stderr ?? run.error}`);
  const seconds = (performance.now() - start) / 1000;
  const rows = new Float32Array(new Uint8Array(run.stdout).buffer);
  return { rows, seconds };
}

/**
 * The same through the WebAssembly module.
 * @param {string[]} texts
 */
async function embedInWasm(texts) {
  const start = performance.now();
  const build = pickBuild();
  const engine = await Engine.open(await compileBuild(build), await readBytes(DEFAULT_MODEL));
  const opened = performance.now();
  const rows = engine.embed(texts);
  const done = performance.now();
  const { dimensions } = engine;
  engine.close();
  return {
    build,
    rows,
    dimensions,
    seconds: (done - start) / 1000,
    embedSeconds: (done - opened) / 1000,
  };
}

/**
 * @param {Float32Array} rows
 * @param {number} size
 * @param {number} i
 * @param {number} j
 */
function cosine(rows, size, i, j, other = rows) {
  let sum = 0;
  for (let d = 0; d < size; d++) sum += rows[i * size + d] * other[j * size + d];
  return sum;
}

const sentences = readFileSync(SAMPLE, 'utf8').trimEnd().split('\n');
const texts = [QUERY, ...sentences];
const native = embedNatively(texts);
const wasm = await embedInWasm(texts);
const size = wasm.dimensions;

const agreement = texts.map((_, i) => cosine(native.rows, size, i, i, wasm.rows));
const worst = Math.min(...agreement);
const nearest = sentences
  .map((sentence, i) => ({ sentence, score: cosine(wasm.rows, size, 0, i + 1) }))
  .sort((a, b) => b.score - a.score)
  .slice(0, SHOWN);

console.log(`\n"${QUERY}" is nearest to`);
for (const { sentence, score } of nearest) console.log(`  ${score.toFixed(4)}  ${sentence}`);
console.log(`\n${texts.length} texts, from start to last embedding, loading included:`);
console.log(`  native               ${(native.seconds * 1000).toFixed(0).padStart(5)} ms`);
console.log(
  `  WebAssembly ${wasm.build.padEnd(8)} ${(wasm.seconds * 1000).toFixed(0).padStart(5)} ms, of ` +
    `which ${(wasm.embedSeconds * 1000).toFixed(0)} ms embedding`,
);
console.log(`The two agree to a cosine of at least ${worst.toFixed(6)}.\n`);
if (!(worst > 0.999)) {
  console.error('demo: native and WebAssembly disagree');
  process.exit(1);
}
