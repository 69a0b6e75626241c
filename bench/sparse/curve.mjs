// SPDX-License-Identifier: Apache-2.0
// The curve of wall clock and quality against sparsity: for each sparsity what `wisp eval sts` says
// of quality, and the time of passages in batches and of single sentences, natively (one thread)
// and in WebAssembly, against the same model run dense. See README.md.
//
//   node bench/sparse/curve.mjs --model CALIBRATED.gguf --texts FILE --pairs STS-FILE [--out BASE]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { pickBuild } from '../../js/builds.js';
import { Engine } from '../../js/engine.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PROGRAM = `${ROOT}build/wisp`;
const ROUNDS = 7;

const { values: options } = parseArgs({
  options: {
    model: { type: 'string' },
    texts: { type: 'string' },
    pairs: { type: 'string' },
    out: { type: 'string' },
    sparsities: { type: 'string', default: '0.84,0.8,0.75,0.7,0.65,0.6,0.5' },
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

/** @param {() => void} work */
function milliseconds(work) {
  const start = performance.now();
  work();
  return performance.now() - start;
}

/**
 * The forward pass in the native program on one thread, by its own statistics.
 * @param {string[]} args
 */
function nativeTime(args) {
  const statistics = execFileSync(
    'sh',
    ['-c', '"$0" embed -t 1 --format f32 --stats "$@" 2>&1 >/dev/null', PROGRAM, ...args],
    { encoding: 'utf8', input: passages.join('\n') },
  );
  const stages = [...statistics.matchAll(/^\w+ +([\d.]+) s +[\d.]+ %$/gm)];
  return stages.reduce((sum, [, seconds]) => sum + 1000 * Number(seconds), 0);
}

const folder = mkdtempSync(join(tmpdir(), 'wisp-sparse-'));
const module = await WebAssembly.compile(readFileSync(`${ROOT}js/wisp-${pickBuild()}.wasm`));

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
  return { name, sparsity, args, engine, spearman, cosine, native: NaN, wasm: NaN, single: NaN };
}

const rows = [await openRow('dense'), await openRow('exact')];
for (const sparsity of options.sparsities.split(','))
  rows.push(await openRow('lowrank', Number(sparsity)));

// All take turns in each round, and the least time of each counts: what else the machine does
// only adds.
for (let round = 0; round < ROUNDS; round++)
  for (const row of rows) {
    const { engine, args } = row;
    const times = {
      native: nativeTime(args),
      wasm: milliseconds(() => engine.embed(passages)),
      single: milliseconds(() => sentences.forEach((text) => engine.embed([text]))),
    };
    for (const key of /** @type {const} */ (['native', 'wasm', 'single']))
      row[key] = Math.min(times[key], round ? row[key] : Infinity);
  }
const kernels = rows[0].engine.info().kernels;
for (const { engine } of rows) engine.close();
rmSync(folder, { recursive: true });

const [dense] = rows;
/** @param {'native' | 'wasm' | 'single'} key */
const gain = (/** @type {typeof dense} */ row, key) => dense[key] / row[key];
const table = [
  '| left out | Spearman | cosine to f32 | native, passages | wasm, passages | wasm, single sentences |',
  '|---|---|---|---|---|---|',
  ...rows.map((row) =>
    [
      '',
      row.name,
      row.spearman.toFixed(4),
      row.cosine.toFixed(5),
      .../** @type {const} */ (['native', 'wasm', 'single']).map(
        (key) => `${row[key].toFixed(0)} ms, ${gain(row, key).toFixed(2)}x`,
      ),
      '',
    ]
      .join(' | ')
      .trim(),
  ),
].join('\n');
console.log(table);
console.log(`WebAssembly kernels: ${kernels}`);

/** Gain (y) against cosine (x), a line for each place. */
function picture() {
  const [width, height, left, top] = [560, 320, 60, 30];
  const byCosine = [...rows].sort((a, b) => a.cosine - b.cosine);
  const worst = byCosine[0].cosine;
  const most = Math.max(2, ...rows.flatMap((row) => [gain(row, 'native'), gain(row, 'wasm')]));
  const x = (/** @type {number} */ c) => left + ((c - worst) / (1 - worst)) * (width - left - 20);
  const y = (/** @type {number} */ g) => height - 40 - ((g - 1) / (most - 1)) * (height - 40 - top);
  const lines = /** @type {const} */ ([
    ['native', '#4269d0', 'native, passages'],
    ['wasm', '#efb118', 'WebAssembly, passages'],
    ['single', '#3ca951', 'WebAssembly, single sentences'],
  ]).map(([key, colour, name], i) => {
    const points = byCosine.map(
      (row) => `${x(row.cosine).toFixed(1)},${y(gain(row, key)).toFixed(1)}`,
    );
    return `<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.join(' ')}"/>
<text x="${left + 10}" y="${top + 14 * i}" fill="${colour}">${name}</text>`;
  });
  const marks = [1, 1.25, 1.5, 1.75, 2]
    .filter((g) => g <= most)
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
