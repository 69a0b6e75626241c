// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of models that pages let go of run inside a page.
import { Embedder } from '../../../js/browser.js';

const FAULTY = new URL('../pool/faulty-browser.mjs', import.meta.url);
const CALIBRATED = '/build/test-models/cls12-calibrated.gguf';
const TEXTS = ['find the water', 'one', '', 'water finds its own way down'];

/** @type {Embedder} */
let embedder;

/** @param {ArrayLike<number>} rows */
const text = (rows) => Array.from(rows).join();

/**
 * Loads a model with workers that end when they are told to; returns rows, and what progress said.
 * @param {string} url
 * @param {{ workers: number, idleTimeout?: number }} options
 */
export async function lendModel(url, options) {
  let progress;
  embedder = await Embedder.load(url, {
    ...options,
    ...(options.workers > 0 && { worker: () => new Worker(FAULTY, { type: 'module' }) }),
    onProgress(said) {
      if (said.phase === 'model') progress = said;
    },
  });
  const rows = text(await embedder.embed(TEXTS));
  return { rows, progress, info: embedder.info() };
}

/** Ends all workers that were loaded; returns the rows of those in their place, or the error. */
export async function loseWorkers() {
  try {
    // The oldest worker that has nothing to do gets the text.
    for (let lost = 1; lost <= embedder.info().workers; lost++) {
      await embedder.embed('FAULT exitAfter').catch(() => {});
      while (embedder.stats().lostWorkers < lost) await new Promise((done) => setTimeout(done, 10));
    }
    return { rows: text(await embedder.embed(TEXTS)) };
  } catch (cause) {
    const { code, message } = /** @type {import('../../../js/base/errors.js').WispError} */ (cause);
    return { code, message };
  }
}

/** Waits until all workers rest, and returns the rows of those that come back. */
export async function restWorkers() {
  while (embedder.stats().workers > 0) await new Promise((done) => setTimeout(done, 10));
  return { rows: text(await embedder.embed(TEXTS)) };
}

export const endLoan = () => embedder.destroy();

/** Has the browser's cache take what the server has now. @param {string} url */
export async function fetchAnew(url) {
  await (await fetch(url, { cache: 'reload' })).arrayBuffer();
}

/**
 * Changes the predictor of a model that the page has let go of; returns the rows before and after, and those that new
 * embedders have.
 * @param {number} workers
 */
export async function changePredictor(workers) {
  const found = [];
  const one = await Embedder.load(CALIBRATED, { workers, predictor: 'dense' });
  found.push(text(await one.embed(TEXTS)));
  await one.setSparse({ sparsity: 0.5 });
  found.push(text(await one.embed(TEXTS)));
  await one.close();
  const expected = [];
  for (const options of [{ predictor: 'dense' }, { sparsity: 0.5 }]) {
    const other = await Embedder.load(CALIBRATED, { workers: 0, .../** @type {any} */ (options) });
    expected.push(text(await other.embed(TEXTS)));
    await other.close();
  }
  return { found, expected };
}
