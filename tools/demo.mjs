// SPDX-License-Identifier: Apache-2.0
// Usage: demo.mjs native | build | modules
// "make demo" runs this in parts, each as soon as what it shows is built. "native" shows the sample sentences that are
// nearest to a query, and the beginning of a story, by the native program. "build" prints which WebAssembly module this
// Node runs. "modules" embeds the sentences natively, in one instance of that module, and in the package's pool of
// workers, and prints how closely the rows agree and the time of each.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { pickBuild } from '../js/calls/load.js';
import { Engine } from '../js/engine/engine.js';
import { Embedder } from '../js/node.js';
import { compileBuild } from '../js/embedding-node.js';
import { readBytes } from '../js/platform/platform-node.js';

const QUERY = 'What do plants live on?';
const SHOWN = 5;
const PROGRAM = fileURLToPath(new URL('../build/wisp', import.meta.url));
const SAMPLE = new URL('../web-demo/sample.txt', import.meta.url);

const sentences = readFileSync(SAMPLE, 'utf8').trimEnd().split('\n');
const texts = [QUERY, ...sentences];

/** When `make demo` began, in seconds. */
const started = Number(process.env.WISP_DEMO_START ?? Date.now() / 1000);

/**
 * Embeds the texts with the native program. `seconds` is the time of its whole run.
 * @param {string[]} texts
 * @param {string[]} options
 */
function embedNatively(texts, ...options) {
  const start = performance.now();
  const run = spawnSync(PROGRAM, ['embed', '--format', 'f32', '--input', 'ndjson', ...options], {
    input: texts.map((text) => JSON.stringify(text)).join('\n'),
    maxBuffer: 1 << 28,
  });
  if (run.status !== 0) throw new Error(`${PROGRAM}: ${run.stderr ?? run.error}`);
  const seconds = (performance.now() - start) / 1000;
  const rows = new Float32Array(new Uint8Array(run.stdout).buffer);
  return { rows, seconds };
}

/**
 * Embeds the texts in the WebAssembly module.
 * @param {string[]} texts
 * @param {{ portable?: boolean }} [options]
 */
async function embedInWasm(texts, options) {
  const start = performance.now();
  const build = pickBuild();
  const engine = await Engine.open(
    await compileBuild(build),
    await readBytes(new URL('../models/wisp-default.gguf', import.meta.url)),
    options,
  );
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
 * Embeds the texts with the package, as its users do.
 * @param {string[]} texts
 */
async function embedPooled(texts) {
  const start = performance.now();
  const embedder = await Embedder.load();
  const loaded = performance.now();
  const rows = await embedder.embed(texts);
  const done = performance.now();
  const { workers } = embedder.info();
  await embedder.close();
  return { rows, workers, seconds: (done - start) / 1000, embedSeconds: (done - loaded) / 1000 };
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

/** @param {Float32Array} a @param {Float32Array} b */
const sameBits = (a, b) => a.length === b.length && a.every((value, i) => Object.is(value, b[i]));

/** Returns the beginning of a story by the small model that comes with wisp. */
function tellStory() {
  const args = ['generate', '--echo', '-n', '40', '--text', 'Once upon a time'];
  const run = spawnSync(PROGRAM, args, { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(`${PROGRAM}: ${run.stderr || run.error}`);
  return run.stdout.trimEnd();
}

const secondsSince = () => `${Math.round(Date.now() / 1000 - started)} s after the start`;

function showNative() {
  const { rows } = embedNatively(texts);
  const size = rows.length / texts.length;
  const nearest = sentences
    .map((sentence, i) => ({ sentence, score: cosine(rows, size, 0, i + 1) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, SHOWN);
  const lines = nearest.map(({ sentence, score }) => `  ${score.toFixed(4)}  ${sentence}`);
  // One write, so that what make prints at the same time does not come between.
  console.log(
    `\nThe native program, ${secondsSince()}. "${QUERY}" is nearest to\n${lines.join('\n')}\n` +
      `wisp generate tells a story:\n  ${tellStory()} ...\n`,
  );
}

/** @param {string} name @param {{ seconds: number, embedSeconds?: number }} times */
function showTimes(name, { seconds, embedSeconds }) {
  const embedding =
    embedSeconds === undefined ? '' : `, of which ${(embedSeconds * 1000).toFixed(0)} ms embedding`;
  console.log(`  ${name.padEnd(24)} ${(seconds * 1000).toFixed(0).padStart(5)} ms${embedding}`);
}

async function showModules() {
  const native = embedNatively(texts);
  const wasm = await embedInWasm(texts);
  const pooled = await embedPooled(texts);
  const size = wasm.dimensions;
  const worst = Math.min(...texts.map((_, i) => cosine(native.rows, size, i, i, wasm.rows)));

  console.log(`\nWebAssembly, ${secondsSince()}. ${texts.length} texts, loading included:`);
  showTimes('native', native);
  showTimes(`WebAssembly ${wasm.build}`, wasm);
  showTimes(`package, ${pooled.workers} worker${pooled.workers === 1 ? '' : 's'}`, pooled);
  console.log(`Native and WebAssembly agree to a cosine of at least ${worst.toFixed(6)}.\n`);
  if (!sameBits(wasm.rows, pooled.rows)) throw new Error('the workers and the module alone differ');
  // Each instruction set rounds in its own way, AVX2 most coarsely. Portable rows have the same bits everywhere.
  const portable = await embedInWasm(texts, { portable: true });
  if (!sameBits(embedNatively(texts, '--portable').rows, portable.rows))
    throw new Error('native and WebAssembly disagree');
}

const part = process.argv[2];
if (part === 'native') showNative();
else if (part === 'build') console.log(pickBuild());
else if (part === 'modules') await showModules();
else throw new Error(`demo: native, build or modules, and not "${part}"`);
