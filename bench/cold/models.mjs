// SPDX-License-Identifier: Apache-2.0
// Makes the models and texts of these benchmarks in build/bench/cold, once: node bench/cold/models.mjs
// Needs `make native` and the data of $WISP_SHARED (default: ../shared).
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DATA = `${process.env.WISP_SHARED ?? `${ROOT}../shared`}/data`;
export const FOLDER = `${ROOT}build/bench/cold/`;

/** The shares of needed activations whose neurons are hot, and the hot tokens. */
export const HOT_SHARES = [0.3, 0.5, 0.9];
const HOT_TOKENS = '2000';

/** If tokens alone are cold, fewer are hot: chunks are smaller, and one costs as much as 80 rows. */
const FEW_TOKENS = '500';

/** @param {string} name */
const sts = (name) =>
  readFileSync(`${DATA}/stsb/sts-${name}.csv`, 'utf8')
    .split('\n')
    .flatMap((line) => line.split('\t').slice(5, 7))
    .map((text) => text.trim());

/** Sentences of WikiText, whose tokens have spaces between. @param {string} name */
const wikitext = (name) =>
  readFileSync(`${DATA}/wikitext-2/${name}.txt`, 'utf8')
    .split('\n')
    .filter((line) => line.trim() && !line.startsWith(' ='))
    .flatMap((line) => line.split(/(?<= [.?!]) /))
    .map((text) => text.trim())
    .filter((text) => text.split(' ').length >= 5);

/**
 * Writes a file under its name when it is whole.
 * @param {string} name
 * @param {(path: string) => void} write
 */
function make(name, write) {
  const path = FOLDER + name;
  if (existsSync(path)) return path;
  console.error(`bench: makes ${name}`);
  write(`${path}.part`);
  renameSync(`${path}.part`, path);
  return path;
}

/** @param {string[]} args */
const wisp = (...args) => void execFileSync(`${ROOT}build/wisp`, args, { stdio: ['ignore', 2, 2] });

/** Returns the path of a list of texts, one on each line. @param {'train' | 'sts' | 'wikitext'} name */
export function textsOf(name) {
  mkdirSync(FOLDER, { recursive: true });
  return make(`${name}.txt`, (path) => {
    const texts = {
      train: () => [...sts('train').slice(0, 3000), ...wikitext('valid').slice(0, 1000)],
      // Every sentence once, in the order of the file.
      sts: () => [...new Set(sts('test'))].slice(0, 2000),
      wikitext: () => [...new Set(wikitext('test'))].slice(0, 2000),
    }[name]();
    writeFileSync(path, `${texts.join('\n')}\n`);
  });
}

/**
 * Returns the path of a model.
 *   default: as it comes with wisp, Q8_0 layers and positions in F32; not calibrated
 *   q8: the default, calibrated
 *   q8s: the same layers, with positions in Q8_0 and predictors in Q4_0
 *   q4: layers, token embeddings and predictors in Q4_0, positions in Q8_0
 *   q8t, q4t: q8s and q4 without predictors, of which tokens alone are cold
 * @param {string} kind
 * @param {number} [hot] share of needed activations whose neurons are hot
 */
export function modelOf(kind, hot) {
  mkdirSync(FOLDER, { recursive: true });
  const data = ['--data', textsOf('train')];
  if (kind === 'default') return make('default.gguf', (path) => wisp('convert', `${ROOT}models/wisp-default.gguf`, path)); // prettier-ignore
  const sparse = { q8t: 'q8s', q4t: 'q4' }[kind];
  if (sparse)
    return make(`${kind}.gguf`, (path) =>
      wisp('convert', '--plain', '--hot-tokens', FEW_TOKENS, modelOf(sparse), path),
    );
  if (hot !== undefined)
    return make(`${kind}-hot${hot}.gguf`, (path) =>
      wisp('convert', '--hot', `${hot}`, '--hot-tokens', HOT_TOKENS, modelOf(kind), path),
    );
  const layers = kind === 'q4' ? 'q4_0' : 'q8_0';
  const dense =
    kind === 'q8'
      ? modelOf('default')
      : make(
          `${kind}-dense.gguf`,
          (path) =>
          wisp('quantize', '--type', layers, '--embedding-type', 'q4_0', '--position-type', 'q8_0', ...data, modelOf('default'), path), // prettier-ignore
        );
  const predictors = kind === 'q8' ? 'q8_0' : 'q4_0';
  return make(`${kind}.gguf`, (path) =>
    wisp('calibrate', dense, ...data, '--predictor-type', predictors, '-o', path),
  );
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b two rows of length 1 */
export const cosine = (a, b) => Array.from(a).reduce((sum, value, i) => sum + value * b[i], 0);

/**
 * Embeds texts natively.
 * @param {string} model
 * @param {string[]} texts
 * @param {string[]} args of wisp embed
 */
export function nativeRows(model, texts, ...args) {
  const { stdout, stderr } = spawnSync(
    `${ROOT}build/wisp`,
    ['embed', '-m', model, '-t', '1', '--stats', '--format', 'f32', ...args, '-'],
    { input: `${texts.join('\n')}\n`, maxBuffer: 1 << 28 },
  );
  const stats = stderr.toString();
  if (stdout.length === 0) throw new Error(stats);
  const all = new Float32Array(stdout.buffer, stdout.byteOffset, stdout.length / 4);
  const size = all.length / texts.length;
  return { rows: texts.map((_, i) => all.subarray(i * size, (i + 1) * size)), stats };
}

/** The least cosine of rows that two builds compute in int8 by the same neurons. */
export const SAME = 0.999;

/**
 * Throws if a row is not that of the whole model.
 * @param {string} name of what computed it
 * @param {ArrayLike<number>} row
 * @param {ArrayLike<number>} whole
 */
export function checkRow(name, row, whole) {
  const found = cosine(row, whole);
  if (!(found >= SAME)) throw new Error(`${name}: the cosine to the whole model's row is ${found}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  textsOf('sts');
  textsOf('wikitext');
  for (const kind of ['q8', 'q8s', 'q4']) for (const hot of HOT_SHARES) modelOf(kind, hot);
  for (const kind of ['q8t', 'q4t']) modelOf(kind);
}
