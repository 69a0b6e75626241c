// SPDX-License-Identifier: Apache-2.0
// How long the calling thread is blocked by large calls of the package (works.mjs), in Node and in pages.
//
//     node bench/blocks/blocks.mjs [--rounds 3] [--browser chromium|firefox] [--work NAME]
//
// Needs `make wasm`. The goals are 50 ms in Node and 16 ms in pages.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { serve } from '../../js/program/serve.js';
import { launch } from '../runners/browsers.mjs';
import { WORKS, measure } from './works.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    browser: { type: 'string' },
    work: { type: 'string' },
    here: { type: 'boolean', default: false }, // in this process
  },
});
const rounds = Number(values.rounds);
const names = values.work ? [values.work] : Object.keys(WORKS);

/** @param {string} name @param {number[]} blocks */
function print(name, blocks) {
  blocks.sort((a, b) => a - b);
  const [median, most] = [blocks[rounds >> 1], blocks[rounds - 1]].map((ms) => ms.toFixed(1));
  console.log(`| ${name} | ${median}, ${most} |`);
}

async function inThisProcess() {
  const folder = mkdtempSync(join(tmpdir(), 'wisp-blocks-'));
  for (const name of names) print(name, await measure(name, rounds, join(folder, 'x.index')));
  rmSync(folder, { recursive: true });
  process.exit(0); // workers are still there
}

/** Each has a page of a browser of its own. @param {string} browser */
async function inPages(browser) {
  const server = await serve();
  for (const name of names) {
    const { page, close } = await launch(browser);
    await page.goto(`${server.origin}/tests/js/page/blank.html`);
    const call = `import('/bench/blocks/works.mjs').then(({ measure }) =>
      measure(${JSON.stringify(name)}, ${rounds}, 'opfs:x.index'))`;
    print(name, await /** @type {any} */ (page).evaluate(call));
    await close();
  }
  await server.close();
}

/** Each has a process of its own, so that none collects the garbage of another. */
function inProcesses() {
  for (const name of names) {
    const args = [
      fileURLToPath(import.meta.url),
      '--here',
      '--work',
      name,
      '--rounds',
      `${rounds}`,
    ];
    spawnSync(process.execPath, args, { stdio: 'inherit' });
  }
}

if (values.here) await inThisProcess();
console.log('| work | longest block, ms: median, most |\n|---|---|');
if (values.browser) await inPages(values.browser);
else inProcesses();
