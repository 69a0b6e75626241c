// SPDX-License-Identifier: Apache-2.0
// Runs a peer in a page: node browser.mjs PEER --browser NAME --model PATH --texts FOLDER
// [--threads N] [--dtype TYPE] [--isolated] [--one-engine] [--js-flags FLAGS]. FLAGS go to Chromium's V8. Paths are within
// the checkout. With --one-engine the threads of wisp share an engine, instead of workers with one each.
import { writeFile } from 'node:fs/promises';
import { serveFiles } from '../server.mjs';
import { launch } from './browsers.mjs';
import { pageProcess, residentMegabytes } from './processes.mjs';
import { serve, takeArguments } from './protocol.mjs';

const options = takeArguments();
/** @type {Buffer} */
let rows;
const server = await serveFiles({ isolated: options.isolated, onRows: (bytes) => (rows = bytes) });
const browser = await launch(options.browser, options['js-flags']);
const { page } = browser;

/** @param {string} method of the page's Bench */
const inPage =
  (method) =>
  /** @param {{ workload: string }} command */
  ({ workload }) =>
    page.evaluate(
      ([name, argument]) => /** @type {any} */ (globalThis).bench[name](argument),
      [method, workload],
    );

/**
 * Opens the page and the peer in it. `total_seconds` counts from the start of the navigation;
 * `before_mb` is the memory of the page's process before the peer is opened.
 */
async function openPage() {
  server.takeRequests();
  await page.goto('about:blank');
  await page.goto(`${server.origin}/bench/runners/page.html`);
  const before_mb = residentMegabytes(pageProcess(process.pid));
  const paths = { model: `/${options.model}`, texts: `/${options.texts}` };
  const found = await page.evaluate(
    ([peer, more]) => /** @type {any} */ (globalThis).openBench(peer, more),
    [options.peer, { ...options, ...paths }],
  );
  return { ...found, before_mb, requests: server.takeRequests() };
}

/**
 * Opens the page with a new profile. If `twice` is set, opens it again and returns the first
 * visit as `cold`.
 * @param {import('./protocol.mjs').Command} command
 */
async function load({ twice }) {
  const cold = await openPage();
  const found = twice ? { cold, ...(await openPage()) } : cold;
  return {
    ...found,
    about: { [options.browser]: browser.version, ...found.about },
    pids: [pageProcess(process.pid)],
  };
}

await serve({
  load,
  warm: inPage('warm'),
  run: inPage('run'),
  async embed({ workload, to }) {
    await page.evaluate((name) => /** @type {any} */ (globalThis).postRows(name), workload);
    await writeFile(to, rows);
    return {};
  },
});
await browser.close();
server.close();
process.exit(0);
