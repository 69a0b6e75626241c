// SPDX-License-Identifier: Apache-2.0
// Measures the memory that the package adds to Node and to Chromium, for docs/javascript.md:
// node bench/memory.mjs [MODEL] [--cold] [--only PLACE] [--rounds N], if MODEL is a file within the checkout, and
// --cold opens it by ranges. Run `make wasm` first. It works on Linux only.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { launch } from './runners/browsers.mjs';
import { descendants, pageProcess, proportionalMegabytes } from './runners/processes.mjs';
import { serve } from '../js/program/serve.js';
import { serveFiles } from './server.mjs';
import { median } from './median.mjs';

const {
  values: given,
  positionals: [model = 'models/wisp-default.gguf', workers],
} = parseArgs({
  allowPositionals: true,
  options: {
    cold: { type: 'boolean' },
    only: { type: 'string', default: '' },
    rounds: { type: 'string', default: '3' },
  },
});
/** By ranges: nothing comes that texts do not need, and nothing is kept. */
const HOW = given.cold ? { cold: { mode: 'wait', complete: false, store: false } } : {};
const WORKERS = [1, 2, 4];
/** The memory of browsers and Node still changes for a while after they have started. */
const SETTLING_MS = 2000;

/**
 * Added megabytes. The process that runs the package adds `own` and `program` (see
 * proportionalMegabytes); the browser's other processes add `others`. After a call with many texts
 * the package's process has added `large` instead of `own`.
 * @typedef {Record<'own' | 'program' | 'others' | 'large', number>} Added
 */

const settle = () => new Promise((done) => setTimeout(done, SETTLING_MS));

/** Makes texts of up to about 80 tokens, which give each worker several chunks. */
const manyTexts = () => Array.from({ length: 400 }, (_, i) => 'some words '.repeat(i % 40));

/**
 * @param {() => { main: number, others: number[] }} processes
 * @param {() => Promise<unknown>} load loads the package and makes one call
 * @param {() => Promise<unknown>} callLarge
 * @returns {Promise<Added>}
 */
async function measure(processes, load, callLarge) {
  const memory = () => {
    const { main, others } = processes();
    const held = others.map((pid) => proportionalMegabytes(pid).own);
    return { ...proportionalMegabytes(main), others: held.reduce((a, b) => a + b, 0) };
  };
  await settle();
  const before = memory();
  await load();
  const after = memory();
  await callLarge();
  return {
    own: after.own - before.own,
    program: after.program - before.program,
    others: after.others - before.others,
    large: memory().own - before.own,
  };
}

/**
 * Measures the package in a page of a new browser.
 * @param {string} model
 * @param {number} workers
 * @param {boolean} isolated
 */
async function measurePage(model, workers, isolated) {
  // One that sends ranges.
  const server = given.cold
    ? await serve({ isolated })
    : await serveFiles({ isolated, onRows() {} });
  const browser = await launch('chromium');
  const { page } = browser;
  await page.goto('about:blank');
  await page.goto(`${server.origin}/bench/runners/page.html`);
  const load = () =>
    page.evaluate(
      async ([source, count, how]) => {
        const { Embedder } = await import(/** @type {any} */ ('/js/browser.js'));
        if ('cold' in how) await import(/** @type {any} */ ('/js/cold-browser.js'));
        const embedder = await Embedder.load(source, { workers: count, ...how });
        await embedder.embed('one text');
        /** @type {any} */ (globalThis).embedder = embedder;
      },
      /** @type {const} */ ([`/${model}`, workers, HOW]),
    );
  const callLarge = () =>
    page.evaluate(async (texts) => {
      await /** @type {any} */ (globalThis).embedder.embed(texts);
    }, manyTexts());
  const processes = () => {
    const main = pageProcess(process.pid);
    const all = descendants(process.pid).slice(1);
    return { main, others: all.filter((pid) => pid !== main) };
  };
  const added = await measure(processes, load, callLarge);
  await browser.close();
  server.close();
  return added;
}

/**
 * Measures the package in this process, which has not loaded it before.
 * @param {string} model
 * @param {number} workers
 */
async function measureHere(model, workers) {
  /** @type {any} */
  let embedder;
  const load = async () => {
    const { Embedder } = await import('../js/node.js');
    embedder = await Embedder.load(model, /** @type {any} */ ({ workers, ...HOW }));
    await embedder.embed('one text');
  };
  const processes = () => ({ main: process.pid, others: [] });
  const added = await measure(processes, load, () => embedder.embed(manyTexts()));
  await embedder.close();
  return added;
}

/**
 * Measures the package in a new Node process.
 * @param {string} model
 * @param {number} workers
 * @returns {Added}
 */
function measureNode(model, workers) {
  const script = fileURLToPath(import.meta.url);
  const args = [script, model, String(workers), ...(given.cold ? ['--cold'] : [])];
  return JSON.parse(execFileSync(process.execPath, args).toString());
}

/** @type {[string, (model: string, workers: number) => Promise<Added> | Added][]} */
const PLACES = [
  [`Node ${process.versions.node}`, measureNode],
  ['Chromium, isolated page', (model, workers) => measurePage(model, workers, true)],
  ['Chromium, plain page', (model, workers) => measurePage(model, workers, false)],
];

/** @param {string} model */
async function printTable(model) {
  console.log('| where | workers | own | program | other processes | own, after a large call |');
  console.log('|---|---:|---:|---:|---:|---:|');
  for (const [place, added] of PLACES.filter(([name]) => name.includes(given.only))) {
    for (const workers of WORKERS) {
      /** @type {Added[]} */
      const rounds = [];
      while (rounds.length < Number(given.rounds)) rounds.push(await added(model, workers));
      const columns = /** @type {const} */ (['own', 'program', 'others', 'large']);
      const cells = columns.map((what) => median(rounds.map((round) => round[what])).toFixed(0));
      console.log(`| ${place} | ${workers} | ${cells.join(' | ')} |`);
    }
  }
}

if (workers) console.log(JSON.stringify(await measureHere(model, Number(workers))));
else await printTable(model);
process.exit(0);
