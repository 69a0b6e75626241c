// SPDX-License-Identifier: Apache-2.0
// Runs a peer in a page: node browser.mjs PEER --browser NAME --model PATH --texts FOLDER
// [--threads N] [--dtype TYPE] [--isolated]. Paths are within the checkout.
import { writeFile } from 'node:fs/promises';
import { serveFiles } from '../server.mjs';
import { launch, pageProcess } from './browsers.mjs';
import { serve, takeArguments } from './protocol.mjs';

const options = takeArguments();
/** @type {Buffer} */
let rows;
const server = await serveFiles({ isolated: options.isolated, onRows: (bytes) => (rows = bytes) });
const browser = await launch(options.browser);
const { page } = browser;
await page.goto(`${server.origin}/bench/runners/page.html`);

/** @param {string} method of the page's Bench */
const inPage =
  (method) =>
  /** @param {{ workload: string }} command */
  ({ workload }) =>
    page.evaluate(
      ([name, argument]) => /** @type {any} */ (globalThis).bench[name](argument),
      [method, workload],
    );

/** Opens the peer in the page; its process is the one whose memory counts. */
async function load() {
  const paths = { model: `/${options.model}`, texts: `/${options.texts}` };
  await page.evaluate(
    ([peer, more]) => /** @type {any} */ (globalThis).openBench(peer, more),
    [options.peer, { ...options, ...paths }],
  );
  const { seconds, about } = await inPage('load')({ workload: '' });
  const isolated = await page.evaluate(() => globalThis.crossOriginIsolated);
  return {
    seconds,
    about: { [options.browser]: browser.version, isolated, ...about },
    pids: [pageProcess(browser.pid)],
  };
}

await serve({
  load,
  warm: inPage('warm'),
  run: inPage('run'),
  async embed({ workload, to }) {
    await page.evaluate(
      (name) => /** @type {any} */ (globalThis).postRows(name),
      /** @type {any} */ (workload),
    );
    await writeFile(to, rows);
    return {};
  },
});
await browser.close();
server.close();
process.exit(0);
