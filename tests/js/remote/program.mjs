// SPDX-License-Identifier: Apache-2.0
// For tests of `wisp --model http://...`: the program with a cache of its own, servers of a small calibrated model, and
// the files of a cache.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { machine, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { shortTexts } from '../pool/texts.mjs';
import { serveRanges } from '../range-server.mjs';
import { PROGRAM, ROOT, smallColdModel, wisp } from '../support.mjs';

/** @typedef {import('../range-server.mjs').RangeServer} RangeServer */
/** @typedef {{ code: number | null, signal: string | null, rows: Buffer, err: string }} Ended */

/** Bytes of a block, of which a cache knows whether it has come (src/http/cache.h). */
export const BLOCK = 4096;
export const TEXTS = shortTexts(40, 3).join('\n');
/** The model that servers send. */
export const bytes = readFileSync(smallColdModel());
/** For files of the tests, until they end. */
export const folder = mkdtempSync(join(tmpdir(), 'wisp-remote-'));
after(() => rmSync(folder, { recursive: true }));

/** The folder into which tools/setup.py puts libcurl if the machine has none. */
const LIBRARIES = `${ROOT}.tools/curl/usr/lib/${machine()}-linux-gnu`;
const withLibraries = [process.env.LD_LIBRARY_PATH, LIBRARIES].filter(Boolean).join(':');

let caches = 0;
/** Returns a folder for a cache, which is not there yet. */
export const newCache = () => join(folder, `cache-${caches++}`);

/**
 * Starts the program; its input stays open.
 * @param {string} cache
 * @param {string[]} args
 * @param {Record<string, string>} [env]
 */
export function begin(cache, args, env = {}) {
  const child = spawn(PROGRAM, args, {
    env: { ...process.env, LD_LIBRARY_PATH: withLibraries, WISP_CACHE: cache, ...env },
  });
  /** @type {Buffer[]} */
  const out = [];
  let err = '';
  child.stdout.on('data', (part) => out.push(part));
  child.stderr.on('data', (part) => (err += part));
  child.stdin.on('error', () => {}); // it may end before it has read
  /** @type {Promise<Ended>} */
  const ended = once(child, 'close').then(([code, signal]) => ({
    code,
    signal,
    rows: Buffer.concat(out),
    err,
  }));
  return { child, ended };
}

/**
 * Starts to embed TEXTS with the model of a URL.
 * @param {string} url
 * @param {string} cache
 * @param {{ args?: string[], env?: Record<string, string> }} [options]
 */
export function beginEmbed(url, cache, { args = [], env = {} } = {}) {
  const all = ['embed', '-m', url, '--predictor', 'lowrank', '--format', 'f32', ...args];
  const begun = begin(cache, all, env);
  begun.child.stdin.end(TEXTS);
  return begun;
}

/** @type {(...given: Parameters<typeof beginEmbed>) => Promise<Ended>} */
export const embed = (...given) => beginEmbed(...given).ended;

export const COLD = ['--cold', 'wait'];

/** The reason to skip these tests, or false. CI skips nothing. */
export const noCurl = (() => {
  const env = { ...process.env, LD_LIBRARY_PATH: withLibraries };
  const load = 'import ctypes; ctypes.CDLL("libcurl.so.4")';
  const isThere = spawnSync('python3', ['-c', load], { env }).status === 0;
  return isThere || process.env.CI ? false : 'libcurl is not there (tools/setup.py curl says why)';
})();

/** Where the cold rows of the model begin. */
export const COLD_FROM = Math.min(
  ...JSON.parse(wisp(['inspect', '--format', 'json', smallColdModel()]).out)
    .tensors.filter((/** @type {{ name: string }} */ { name }) => name.endsWith('.cold'))
    .map((/** @type {{ offset: number }} */ { offset }) => offset),
);

/** The rows of TEXTS by a model's file. @param {string} path @param {string} [predictor] */
export const expectedOf = (path, predictor = 'lowrank') =>
  wisp(['embed', '-m', path, '--predictor', predictor, '--format', 'f32'], TEXTS).bytes;

const expected = expectedOf(smallColdModel());

/** Asserts that a run went well, and wrote these rows. @param {Ended} run @param {Buffer} [rows] */
export function assertRows(run, rows = expected) {
  assert.equal(run.err, '');
  assert.equal(run.code, 0);
  assert.ok(run.rows.equals(rows), 'other rows came');
}

/** Runs a test with a server of a file. @param {(server: RangeServer) => Promise<void>} body */
export async function withServer(body, file = bytes) {
  const server = await serveRanges(file);
  server.etag = '"one"';
  try {
    await body(server);
  } finally {
    await server.close();
  }
}

/** Requests for bytes of the file, without the first one of a run, which asks for its state. @param {RangeServer} s */
export const fetched = (s) => s.asked.filter(([from, to]) => from !== to || from !== 0);

/** How many bytes of the file were asked for. @param {RangeServer} server */
export const bytesFetched = (server) =>
  fetched(server).reduce((sum, [from, to]) => sum + to + 1 - from, 0);

/** The names of a cache's files. @param {string} cache */
export const filesOf = (cache) => {
  const http = join(cache, 'http');
  return existsSync(http) ? readdirSync(http).sort() : [];
};

/** The path of a cache's file with this ending, if there is one. @param {string} cache @param {string} ending */
export const fileOf = (cache, ending) => {
  const name = filesOf(cache).find((each) => each.endsWith(ending));
  return name === undefined ? undefined : join(cache, 'http', name);
};

/** How many blocks of a file the cache has. @param {string} cache */
export function blocksOf(cache) {
  const path = fileOf(cache, '.have');
  if (path === undefined) return 0;
  const table = readFileSync(path);
  let blocks = 0;
  for (let at = 0; at + 8 <= table.length; at += 8) {
    if (table.readBigUInt64LE(at) !== 0n) blocks++;
  }
  return blocks;
}

/** @param {() => boolean} holds */
export async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}
