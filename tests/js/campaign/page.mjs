// SPDX-License-Identifier: Apache-2.0
// The campaign inside a page.
import { Embedder } from '../../../js/browser.js';
import { pickBuild } from '../../../js/calls/load.js';
import { Engine } from '../../../js/engine/engine.js';
import { original } from './mutants.mjs';
import { storm, stormTexts } from './storm.mjs';
import { tryMutants } from './try-mutants.mjs';

/** @type {any} the part that pages and Node have in common is used */
const AnyEmbedder = Embedder;

/** @param {string} url */
async function fetchBytes(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/**
 * Kills workers of a model under load.
 * @param {object} how
 * @param {string} how.model address
 * @param {boolean} how.poison whether workers also fail by themselves
 * @param {number} how.seed
 * @param {number} how.texts
 * @param {number} how.kills
 */
export async function killWorkers({ model: url, poison, seed, texts: count, kills }) {
  const script = poison ? '../pool/faulty-browser.mjs' : '../../../js/worker-browser.js';
  const model = await fetchBytes(url);
  const texts = stormTexts(count);
  const module = await WebAssembly.compile(await fetchBytes(`/js/wisp-${pickBuild()}.wasm`));
  const engine = await Engine.open(module, model);
  const expected = engine.embed(texts);
  engine.close();
  return storm({
    Embedder: AnyEmbedder,
    model,
    makeWorker: () => new Worker(new URL(script, import.meta.url), { type: 'module' }),
    killWorker: (worker) => worker.terminate(),
    seed,
    texts,
    expected,
    workers: 3,
    kills,
    poison,
  });
}

/**
 * Loads damaged models.
 * @param {object} how
 * @param {string[]} how.models addresses of the whole ones
 * @param {number} how.seed
 * @param {number} how.first
 * @param {number} how.count
 * @param {number} how.workers
 */
export async function loadMutants({ models, ...how }) {
  const originals = (await Promise.all(models.map(fetchBytes))).map(original);
  return tryMutants({ Embedder: AnyEmbedder, originals, ...how });
}
