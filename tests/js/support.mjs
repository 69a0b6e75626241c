// SPDX-License-Identifier: Apache-2.0
// Shared by the JavaScript tests.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { shortTexts } from './pool/texts.mjs';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));
export const PROGRAM = process.env.WISP_PROGRAM ?? `${ROOT}build/wisp`;
export const ADDON = process.env.WISP_ADDON ?? `${ROOT}build/wisp.node`;
export const DEFAULT_MODEL_PATH = `${ROOT}models/wisp-default.gguf`;
const SHARED = process.env.WISP_SHARED ?? `${ROOT}../shared`;

/** The reason to skip tests that need ../shared, or false if it exists. CI skips nothing. */
export const noShared =
  existsSync(SHARED) || process.env.CI ? false : `${SHARED} is not there (set WISP_SHARED)`;

/**
 * The reason to skip tests that only `make test-all` runs, or false in it. It sets WISP_TEST_ALL, as CI does.
 */
export const onlyInAll = process.env.WISP_TEST_ALL ? false : 'skipped: in make test-all';

/**
 * How many of something a test takes: all of them in `make test-all`, else fewer, which it says.
 * @param {string} what
 * @param {number} all
 * @param {number} fewer
 */
export function extent(what, all, fewer) {
  if (!onlyInAll) return all;
  console.log(`skipped: ${what}, ${all - fewer} of ${all}: in make test-all`);
  return fewer;
}

/** The reason to skip tests of the addon, or false if it is built. CI builds it. */
export const noAddon =
  existsSync(ADDON) || process.env.CI ? false : `${ADDON} is not there (make addon)`;

/** @param {string} name */
export const sharedPath = (name) => `${SHARED}/${name}`;

/** @param {string} name */
export const readShared = (name) => readFileSync(sharedPath(name));

/**
 * The golden texts, and where each stands among all of them, by which its golden results are found:
 * every one in `make test-all`, else every eighth.
 */
export function goldenTexts() {
  const all = /** @type {string[]} */ (
    noShared ? [] : JSON.parse(String(readShared('golden/all-MiniLM-L6-v2/texts.json')))
  );
  const step = onlyInAll ? 8 : 1;
  const places = [...all.keys()].filter((i) => i % step === 0);
  extent('golden texts', all.length, places.length);
  return { texts: places.map((i) => all[i]), places };
}

/**
 * @param {Buffer} buffer of little-endian floats
 * @returns {Float32Array}
 */
export function floatsOf(buffer) {
  return new Float32Array(new Uint8Array(buffer).buffer);
}

/**
 * Returns the cosine of two rows.
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
export function cosine(a, b) {
  let ab = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / Math.sqrt(aa * bb);
}

/**
 * Runs the program to its end.
 * @param {string[]} args
 * @param {string | Buffer} [input]
 * @param {Record<string, string>} [env]
 */
export function wisp(args, input = '', env = {}) {
  const run = spawnSync(PROGRAM, args, {
    input,
    maxBuffer: 1 << 28,
    env: { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH, ...env },
  });
  // A program that ends before it has read its input breaks the pipe.
  const error = /** @type {NodeJS.ErrnoException | undefined} */ (run.error);
  if (error && error.code !== 'EPIPE') throw error;
  return {
    code: run.status,
    signal: run.signal,
    bytes: run.stdout,
    out: run.stdout.toString(),
    err: run.stderr.toString(),
  };
}

/**
 * Starts the program and leaves its streams to the caller.
 * @param {string[]} args
 */
export function start(args) {
  return spawn(PROGRAM, args, { env: { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH } });
}

/** A process that makes a model for longer than this was killed. */
const ABANDONED_MS = 120_000;

/**
 * Makes a file unless it is current, once for all processes of tests.
 * @param {string} path
 * @param {() => boolean} isCurrent
 * @param {string[]} args of the program, which writes the file
 * @param {string} [input] its standard input
 */
function makeOnce(path, isCurrent, args, input) {
  const lock = `${path}.lock`;
  mkdirSync(dirname(path), { recursive: true });
  while (!isCurrent()) {
    try {
      mkdirSync(lock);
    } catch {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
      const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
      if (Date.now() - since > ABANDONED_MS) rmSync(lock, { recursive: true, force: true });
      continue;
    }
    try {
      if (isCurrent()) return;
      const { code, err } = wisp(args, input);
      if (code !== 0) throw new Error(err);
    } finally {
      rmSync(lock, { recursive: true, force: true });
    }
  }
}

/** @param {string} path @param {string} source */
const isNewer = (path, source) =>
  existsSync(path) && statSync(path).mtimeMs >= statSync(source).mtimeMs;

/**
 * Returns a model of 147 kB that opens in milliseconds, or another of tests/data/models.
 * @param {string} [name]
 */
export function smallModel(name = 'cls12') {
  const path = `${ROOT}build/test-models/${name}.gguf`;
  makeOnce(path, () => existsSync(path), ['convert', `${ROOT}tests/data/models/${name}`, path]);
  return path;
}

/**
 * Returns such a model whose weights are of the type.
 * @param {'f16' | 'q8_0' | 'q4_0'} type
 * @param {string} [name]
 */
export function smallTypedModel(type, name = 'prompted') {
  const path = `${ROOT}build/test-models/${name}-${type}.gguf`;
  const args = ['convert', '--type', type, smallModel(name), path];
  makeOnce(path, () => existsSync(path), args);
  return path;
}

/**
 * Returns such a model after calibration.
 * @param {string} [name]
 */
export function smallCalibratedModel(name = 'cls12') {
  const path = `${ROOT}build/test-models/${name}-calibrated.gguf`;
  const options = ['--data', '-', '-o', path, '--rank', '8', '--sparsity', '0.6', '--sentence'];
  const texts = shortTexts(256, 0).join('\n');
  makeOnce(path, () => isNewer(path, PROGRAM), ['calibrate', smallModel(name), ...options], texts);
  return path;
}

/**
 * Returns such a model, converted once.
 * @param {string} name
 * @param {string} kind
 * @param {string[]} options
 */
function smallConvertedModel(name, kind, options) {
  const calibrated = smallCalibratedModel(name);
  const path = `${ROOT}build/test-models/${name}-${kind}.gguf`;
  makeOnce(path, () => isNewer(path, calibrated), ['convert', ...options, calibrated, path]);
  return path;
}

/** Returns such a model with half of its hot neurons and tokens, so that texts need cold ones. */
export const smallColdModel = (name = 'cls12', share = '0.5') =>
  smallConvertedModel(name, 'cold', ['--hot', share, '--hot-tokens', '60']);

/** Returns such a model without predictors, of which tokens alone are cold. */
export const smallColdTokensModel = (name = 'cls12') =>
  smallConvertedModel(name, 'cold-tokens', ['--plain', '--hot-tokens', '20']);

/**
 * Returns the reason to skip a test that needs a program of .tools/bin, or false if it exists. CI skips nothing.
 * @param {string} name
 */
export const noTool = (name) =>
  existsSync(`${ROOT}.tools/bin/${name}`) || process.env.CI
    ? false
    : `.tools/bin/${name} is not there (python3 tools/setup.py says why)`;
