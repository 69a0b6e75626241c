// SPDX-License-Identifier: Apache-2.0
// Draws the curve of time and quality against sparsity. For each sparsity it takes the quality from
// `wisp eval sts`, and times passages in one call and sentences one by one: natively on one thread,
// with each named kernel set, and in WebAssembly. It compares all of them with the model run dense.
// See README.md.
//
//   node bench/sparse/curve.mjs --model CALIBRATED.gguf --texts FILE --pairs STS-FILE
//       [--kernels SET,SET] [--sparsities S,S] [--out BASE]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PROGRAM = `${ROOT}build/wisp`;
const TIMER = `${ROOT}build/bench/sparse`;
const ROUNDS = 5;

const { values: options } = parseArgs({
  options: {
    model: { type: 'string' },
    texts: { type: 'string' },
    pairs: { type: 'string' },
    out: { type: 'string' },
    sparsities: { type: 'string', default: '0.9,0.87,0.84,0.8,0.75,0.7,0.6' },
    kernels: { type: 'string', default: 'avx512' },
  },
});
if (!options.model || !options.texts || !options.pairs) {
  console.error('curve.mjs: give --model, --texts and --pairs (see README.md)');
  process.exit(2);
}
const { model, texts: textsPath, pairs } = /** @type {Record<string, string>} */ (options);

/** @param {string[]} args */
const wisp = (args) => execFileSync(PROGRAM, args, { encoding: 'utf8', maxBuffer: 1 << 28 });

const passages = readFileSync(textsPath, 'utf8').split('\n').filter(Boolean).slice(0, 100);
const sentences = readFileSync(pairs, 'utf8')
  .split('\n')
  .filter(Boolean)
  .slice(0, 100)
  .map((line) => line.split('\t')[5]);

/**
 * Returns the milliseconds that calls of the module take, and those of its feed-forward layers.
 * @param {Engine} engine
 * @param {() => void} work
 */
function wasmTimes(engine, work) {
  const inLayers = () => engine.stats().layers.reduce((sum, { seconds }) => sum + 1e3 * seconds, 0);
  const before = inLayers();
  const start = performance.now();
  work();
  const end = performance.now();
  return [end - start, inLayers() - before];
}

/**
 * Returns the same of the native library on one thread.
 * @param {string} file
 * @param {string} predictor
 * @param {string} kernels
 * @param {readonly string[]} texts
 * @param {number} atOnce
 */
const nativeTimes = (file, predictor, kernels, texts, atOnce) =>
  execFileSync(TIMER, [file, kernels, predictor, String(atOnce)], {
    encoding: 'utf8',
    input: texts.join('\n') + '\n',
  })
    .split(' ')
    .map(Number);

const folder = mkdtempSync(join(tmpdir(), 'wisp-sparse-'));
const module = await WebAssembly.compile(readFileSync(`${ROOT}js/wisp-${pickBuild()}.wasm`));

/** @typedef {{ file: string, predictor: string, engine: Engine }} Row */

/** @param {string} set */
const nativePlaces = (set) => [
  {
    name: `${set}, passages`,
    times: (/** @type {Row} */ { file, predictor }) =>
      nativeTimes(file, predictor, set, passages, passages.length),
  },
  {
    name: `${set}, single sentences`,
    times: (/** @type {Row} */ { file, predictor }) =>
      nativeTimes(file, predictor, set, sentences, 1),
  },
];

const PLACES = [
  ...options.kernels.split(',').flatMap(nativePlaces),
  {
    name: 'wasm, passages',
    times: (/** @type {Row} */ { engine }) => wasmTimes(engine, () => engine.embed(passages)),
  },
  {
    name: 'wasm, single sentences',
    times: (/** @type {Row} */ { engine }) =>
      wasmTimes(engine, () => sentences.forEach((text) => engine.embed([text]))),
  },
];

/**
 * @param {'dense' | 'exact' | 'lowrank'} predictor
 * @param {number} [sparsity] of lowrank
 */
async function openRow(predictor, sparsity) {
  const name = sparsity === undefined ? predictor : `${Math.round(100 * sparsity)} %`;
  const file = join(folder, `${predictor}-${sparsity ?? ''}.gguf`);
  const change = sparsity === undefined ? [] : ['--sparsity', String(sparsity)];
  wisp(['convert', ...change, model, file]);
  const args = ['-m', file, '--predictor', predictor];
  const quality = JSON.parse(wisp(['eval', 'sts', '--json', ...args, pairs]));
  const engine = await Engine.open(module, readFileSync(file), { predictor });
  const { spearman, mean_cosine: cosine } = quality;
  /** @type {number[]} */
  const times = PLACES.map(() => Infinity);
  const inLayers = [...times];
  return { name, sparsity, file, predictor, engine, spearman, cosine, times, inLayers };
}

const rows = [await openRow('dense'), await openRow('exact')];
for (const sparsity of options.sparsities.split(','))
  rows.push(await openRow('lowrank', Number(sparsity)));

// All ways take turns in each round, and the least time of each counts, because other work on the
// machine only adds time.
for (let round = 0; round < ROUNDS; round++)
  for (const row of rows)
    PLACES.forEach(({ times }, i) => {
      const [all, inLayers] = times(row);
      row.times[i] = Math.min(row.times[i], all);
      row.inLayers[i] = Math.min(row.inLayers[i], inLayers);
    });
const kernels = rows[0].engine.info().kernels;
for (const { engine } of rows) engine.close();
rmSync(folder, { recursive: true });

const [dense] = rows;
/** @param {typeof dense} row @param {number} place */
const gain = (row, place) => dense.times[place] / row.times[place];
/** @param {(string | number)[]} cells */
const line = (cells) => `| ${cells.join(' | ')} |`;
const table = [
  line(['left out', 'Spearman', 'cosine to f32', ...PLACES.map(({ name }) => name)]),
  line(['', '', '', ...PLACES].map(() => '---')),
  // No choice of neurons gains more than this.
  line([
    'no feed-forward layers',
    '',
    '',
    ...dense.times.map((time, i) => `${(time / (time - dense.inLayers[i])).toFixed(2)}x`),
  ]),
  ...rows.map((row) =>
    line([
      row.name,
      row.spearman.toFixed(4),
      row.cosine.toFixed(4),
      ...row.times.map((time, i) =>
        row === dense ? `${time.toFixed(0)} ms` : `${gain(row, i).toFixed(2)}x`,
      ),
    ]),
  ),
].join('\n');
console.log(table);
console.log(`WebAssembly kernels: ${kernels}`);

/** Draws the gain (y) against the cosine (x), with a line for each place. */
function picture() {
  const [width, height, left, top] = [560, 360, 60, 30];
  const colours = ['#4269d0', '#efb118', '#3ca951', '#ff725c', '#a463f2', '#9c6b4e', '#6cc5b0'];
  const byCosine = [...rows].sort((a, b) => a.cosine - b.cosine);
  const worst = byCosine[0].cosine;
  const most = Math.max(2, ...rows.flatMap((row) => PLACES.map((_, i) => gain(row, i))));
  const least = Math.min(1, ...rows.flatMap((row) => PLACES.map((_, i) => gain(row, i))));
  const x = (/** @type {number} */ c) => left + ((c - worst) / (1 - worst)) * (width - left - 20);
  const y = (/** @type {number} */ g) =>
    height - 40 - ((g - least) / (most - least)) * (height - 40 - top);
  const lines = PLACES.map(({ name }, i) => {
    const colour = colours[i % colours.length];
    const points = byCosine.map(
      (row) => `${x(row.cosine).toFixed(1)},${y(gain(row, i)).toFixed(1)}`,
    );
    return `<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.join(' ')}"/>
<text x="${width - 180}" y="${top + 14 * i}" fill="${colour}">${name}</text>`;
  });
  const marks = [0.75, 1, 1.25, 1.5, 1.75, 2]
    .filter((g) => g >= least && g <= most)
    .map(
      (g) => `<text x="8" y="${y(g) + 4}">${g}x</text>
<line x1="${left}" x2="${width - 20}" y1="${y(g)}" y2="${y(g)}" stroke="#ddd"/>`,
    );
  const below = rows.map(
    (row) =>
      `<text x="${x(row.cosine)}" y="${height - 22}" text-anchor="middle">${
        row.sparsity ?? (row === dense ? '0' : '')
      }</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
${[...marks, ...below, ...lines].join('\n')}
<text x="${left}" y="${height - 6}">cosine to f32 from ${worst.toFixed(3)} to 1, sparsity below the line</text>
</svg>
`;
}

if (options.out) {
  writeFileSync(`${options.out}.md`, `${table}\n`);
  writeFileSync(`${options.out}.svg`, picture());
}
