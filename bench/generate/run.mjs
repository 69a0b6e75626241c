// SPDX-License-Identifier: Apache-2.0
// Generating in Chromium, wisp beside wllama on the same GGUF file, in turn:
//   node bench/generate/run.mjs [--shape qwen3-0.6b] [--type Q8_0] [--prompt 200] [--tokens 64] [--rounds 5]
//     [--threads 1] [--isolated] [--only wisp] [--processor] [--json FILE]
// More than one thread needs --isolated. Weights are random. Run `make wasm` first, and `npm ci` in bench/ for wllama.
// With --processor it counts the processor time of the pages instead of the clock, for a machine with other work, and
// takes the best round: a round writes one token, whose time is the prompt's, and then all of them.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { serve } from '../../js/program/serve.js';
import { CHROMIUM } from '../../tests/js/browsers.mjs';
import { SHAPES, writeModel } from './model.mjs';
import { median } from '../median.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { values } = parseArgs({
  options: {
    shape: { type: 'string', default: 'qwen3-0.6b' },
    type: { type: 'string', default: 'Q8_0' },
    prompt: { type: 'string', default: '200' },
    tokens: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: '1' },
    isolated: { type: 'boolean', default: false },
    only: { type: 'string', default: 'wisp,wllama' },
    processor: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});
const folder = `${ROOT}build/bench`;
const name = `${values.shape}-${values.type}.gguf`;
mkdirSync(folder, { recursive: true });
if (!existsSync(`${folder}/${name}`))
  writeModel(`${folder}/${name}`, SHAPES[values.shape], values.type);

/** Prompts differ from their first word on, so that nothing of the one before helps. */
const promptOf = (/** @type {number} */ round) =>
  Array.from({ length: Number(values.prompt) - 1 }, (_, i) =>
    String.fromCharCode(97 + ((i * i + 7 * round) % 26)),
  ).join(' ');
/** Processor time of all pages so far, in seconds. */
async function pagesSeconds() {
  const { processInfo } = await devtools.send('SystemInfo.getProcessInfo');
  const renderers = processInfo.filter(({ type }) => type === 'renderer');
  return renderers.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

const server = await serve({ isolated: values.isolated });
const browser = await chromium.launch(CHROMIUM);
const devtools = await browser.newBrowserCDPSession();
const pages = await Promise.all(
  values.only.split(',').map(async (peer) => {
    const page = await browser.newPage();
    page.setDefaultTimeout(600_000);
    await page.goto(`${server.origin}/bench/generate/page.html`);
    await page.waitForFunction(() => 'ready' in document.documentElement.dataset);
    return {
      peer,
      page,
      about: { threads: 0 },
      runs: /** @type {import('./page.mjs').Written[]} */ ([]),
      prompts: /** @type {number[]} tokens of a prompt in a second of processor time */ ([]),
      texts: /** @type {number[]} tokens of text likewise */ ([]),
    };
  }),
);
for (const each of pages) {
  each.about = await each.page.evaluate(
    ([peer, model, threads]) => /** @type {any} */ (globalThis).open(peer, model, threads),
    [each.peer, `/build/bench/${name}`, Number(values.threads)],
  );
  // A page without shared memory has one thread, whatever is asked for.
  if (each.about.threads !== Number(values.threads))
    throw new Error(`${each.peer}: --threads ${values.threads}, and ${each.about.threads} compute`);
}
// Round 0 warms up.
for (let round = 0; round <= Number(values.rounds); round++)
  for (const { page, runs, prompts, texts } of round % 2 ? pages : [...pages].reverse()) {
    const write = (/** @type {string} */ prompt, /** @type {number} */ tokens) =>
      page.evaluate(
        (given) => /** @type {any} */ (globalThis).write(...given),
        /** @type {[string, number]} */ ([prompt, tokens]),
      );
    const start = await pagesSeconds();
    if (values.processor) await write(promptOf(round + 13), 1);
    const middle = await pagesSeconds();
    const run = await write(promptOf(round), Number(values.tokens));
    const end = await pagesSeconds();
    if (round === 0) continue;
    runs.push(run);
    prompts.push(run.promptTokens / (middle - start));
    texts.push((run.tokens - 1) / (end - middle - (middle - start)));
  }
const results = pages.map(({ peer, about, runs, prompts, texts }) => ({
  peer,
  about,
  promptTokens: runs[0].promptTokens,
  tokens: runs[0].tokens,
  firstMs: median(runs.map((run) => run.firstMs)),
  promptPerSecond: values.processor
    ? Math.max(...prompts)
    : median(runs.map((run) => (1000 * run.promptTokens) / run.firstMs)),
  perSecond: values.processor ? Math.max(...texts) : median(runs.map((run) => run.perSecond)),
  runs,
}));
const report = { when: new Date().toISOString(), browser: browser.version(), ...values, results };
await browser.close();
await server.close();
if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
console.log(`${name}, prompt of ${values.prompt} tokens, ${values.tokens} tokens of text, ${values.processor ? 'best' : 'medians'} of ${values.rounds} rounds\n`); // prettier-ignore
console.log('| | first token, ms | prompt, tokens/s | text, tokens/s |\n|---|---|---|---|');
for (const { peer, firstMs, promptPerSecond, perSecond } of results)
  console.log(`| ${peer} | ${firstMs.toFixed(1)} | ${promptPerSecond.toFixed(0)} | ${perSecond.toFixed(1)} |`); // prettier-ignore
