// SPDX-License-Identifier: Apache-2.0
// The browsers of .tools/bin, headless, with a fresh profile each.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { ROOT } from './support.mjs';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP insecure.test 127.0.0.1',
];

/** How Chromium is launched. */
export const CHROMIUM = { executablePath: `${ROOT}.tools/bin/chromium`, args: FLAGS };

/**
 * A page and what tests do with it.
 * @typedef {object} Tab
 * @property {(url: string) => Promise<void>} open
 * @property {(name: string, ...values: any[]) => Promise<any>} call a function of page/run.mjs
 * @property {() => Promise<void>} close the browser
 * @property {(garbage?: 'with garbage') => Promise<number>} [residentMegabytes] of the pages'
 *   processes; without garbage unless asked for
 * @property {() => number} [countWorkers] of the page
 * @property {(bytes?: number) => Promise<void>} [limitStorage] sets what the page's origin may keep; without a number, the
 *   browser's own limit
 * @property {() => Promise<Pick<Tab, 'open' | 'call'>>} [another] opens a second page, with the same storage
 */

/** Source text for the page to run, so that it gets nothing of the tests' compiled forms. */
const CALL = `(name, values) =>
  import('/tests/js/page/run.mjs').then((module) => module[name](...values))`;

/**
 * @param {{ goto: (url: string) => Promise<unknown>, evaluate: (text: string) => Promise<any> }} page
 * @returns {Pick<Tab, 'open' | 'call'>}
 */
const tabOf = (page) => ({
  open: async (url) => void (await page.goto(url)),
  call: (name, ...values) =>
    page.evaluate(`(${CALL})(${JSON.stringify(name)}, ${JSON.stringify(values)})`),
});

/** @type {Record<string, (flags?: string[]) => Promise<Tab>>} with more flags of the browser */
export const launch = {
  async chromium(flags = []) {
    const browser = await chromium.launch({ ...CHROMIUM, args: [...FLAGS, ...flags] });
    const context = await browser.newContext();
    const page = await context.newPage();
    /** @type {import('playwright-core').CDPSession | undefined} */
    let limiting;
    return {
      ...tabOf(page),
      close: () => browser.close(),
      async residentMegabytes(garbage) {
        if (!garbage) await collectGarbage(page);
        return residentMegabytes(browser);
      },
      countWorkers: () => page.workers().length,
      async limitStorage(quotaSize) {
        limiting ??= await page.context().newCDPSession(page); // the limit ends with it
        const { origin } = new URL(page.url());
        await limiting.send('Storage.overrideQuotaForOrigin', { origin, quotaSize });
      },
      another: async () => tabOf(await context.newPage()),
    };
  },

  async firefox() {
    const browser = await puppeteer.launch({
      browser: 'firefox',
      executablePath: `${ROOT}.tools/bin/firefox`,
      headless: true,
      protocolTimeout: 600_000,
    });
    const page = await browser.newPage();
    return {
      ...tabOf(page),
      close: () => browser.close(),
      another: async () => tabOf(await browser.newPage()),
    };
  },
};

/** @param {import('playwright-core').Page} page */
async function collectGarbage(page) {
  const session = await page.context().newCDPSession(page);
  for (let i = 0; i < 2; i++) await session.send('HeapProfiler.collectGarbage');
  await session.detach();
}

/** @param {import('playwright-core').Browser} browser */
async function residentMegabytes(browser) {
  const root = await browser.newBrowserCDPSession();
  const { processInfo } = await root.send('SystemInfo.getProcessInfo');
  await root.detach();
  const renderers = processInfo.filter(({ type }) => type === 'renderer');
  return renderers.reduce((sum, { id }) => sum + residentOf(id), 0);
}

/** @param {number} pid */
function residentOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1000;
}
