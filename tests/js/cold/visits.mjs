// SPDX-License-Identifier: Apache-2.0
// For tests of models by range that Node keeps: a server of one, a new store for each test, and visits.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, beforeEach } from 'node:test';
import { readTable } from '../../../js/ranges/cold-table.js';
import { Embedder } from '../../../js/node.js';
import { shortTexts } from '../pool/texts.mjs';
import { serveRanges } from '../range-server.mjs';
import { rechunk } from '../rechunk.mjs';
import { smallColdModel } from '../support.mjs';

export const TEXTS = shortTexts(40, 3);
/** Bytes of a chunk that has a digest. */
export const CHUNK = 4096;
const top = mkdtempSync(join(tmpdir(), 'wisp-store-'));
after(() => rmSync(top, { recursive: true }));

/** The folder of the store, a new one for each test. */
export let folder = '';

/** The rows of TEXTS by a whole model. @param {any} source @param {any} [options] */
export async function embedWhole(source, options) {
  const whole = await Embedder.load(source, { backend: 'wasm', workers: 1, predictor: 'lowrank', ...options }); // prettier-ignore
  const rows = await whole.embed(TEXTS);
  await whole.close();
  return rows;
}

/** Returns the model with small chunks, and how many of its bytes it opens from. */
async function makeModel() {
  const file = readFileSync(smallColdModel());
  const own = await serveRanges(file);
  const how = { mode: 'wait', store: false, complete: false };
  const opened = await Embedder.load(own.url, { workers: 1, cold: /** @type {any} */ (how) });
  const { hotBytes } = /** @type {any} */ (opened.stats()).cold;
  await opened.close();
  await own.close();
  const bytes = rechunk(file, hotBytes, CHUNK);
  return { bytes, hotBytes: hotBytes + bytes.length - file.length };
}

const model = await makeModel();
/** The model that the server sends. */
export const { bytes } = model;
export const table = /** @type {import('../../../js/ranges/cold-table.js').ChunkTable} */ (
  readTable(bytes, model.hotBytes, bytes.length)
);
export const server = await serveRanges(bytes);
after(() => server.close());
/** The rows of TEXTS. */
export const expected = await embedWhole(smallColdModel());

/** @type {Embedder[]} */
const opened = [];
beforeEach(() => {
  process.env.WISP_CACHE = mkdtempSync(join(top, 'cache-'));
  folder = join(process.env.WISP_CACHE, 'chunks');
  mkdirSync(folder);
  server.bytes = bytes;
  server.etag = '"one"';
  server.fault = undefined;
  server.forget();
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((embedder) => embedder.destroy()));
});

/** Opens the model by range. @param {any} [cold] @param {any} [options] @param {any} [source] */
export async function load(cold, options, source = server.url) {
  const how = { mode: 'wait', gap: 64, first: 8192, ...cold };
  const embedder = await Embedder.load(source, { workers: 1, ...options, cold: how });
  opened.push(embedder);
  return embedder;
}

/**
 * @param {Embedder} embedder
 * @returns {import('../../../types/index.js').ColdTotals}
 */
export const coldOf = (embedder) => /** @type {any} */ (embedder.stats()).cold;

/** Waits until something holds. @param {() => unknown} holds */
export async function until(holds) {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Resolves when the store has all of the file. @param {Embedder} embedder */
export const stored = (embedder) =>
  until(() => coldOf(embedder).storedBytes === bytes.length - table.start);

/** Resolves when the store has all that was fetched. @param {Embedder} embedder */
export const settled = (embedder) =>
  until(() => coldOf(embedder).storedBytes === coldOf(embedder).presentBytes - table.start);

/** Asserts that no byte was asked for twice, but for the question whether the file is the same. */
export function assertOnce() {
  const ranges = server.asked
    .filter((_, i) => server.headers[i]['if-none-match'] === undefined)
    .sort((a, b) => a[0] - b[0]);
  ranges.forEach(([from, to], i) => {
    assert.ok(from <= to);
    if (i > 0) assert.ok(from > ranges[i - 1][1], `${ranges[i - 1]} and ${from}`);
  });
}

/** The entries of the store, without the folder of URLs. */
export const entries = () =>
  readdirSync(folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter(
      (path) => !path.includes('/use/') && statSync(path, { throwIfNoEntry: false })?.isFile(),
    );

/** A first visit, after which the store has all of the file. */
export async function visit() {
  const embedder = await load();
  await stored(embedder);
  await embedder.close();
  server.forget();
}

/** Asserts that an error is a WispError of this code and message. @param {any} about */
export const failure = (about) => (/** @type {any} */ error) => {
  assert.equal(error.name, 'WispError', error.stack);
  assert.equal(error.code, about.code, error.message);
  assert.match(error.message, about.message);
  return true;
};
