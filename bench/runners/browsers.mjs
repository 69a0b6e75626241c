// SPDX-License-Identifier: Apache-2.0
// Headless browsers of .tools/, each with a fresh profile. One more browser is one more entry here.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';

const BIN = fileURLToPath(new URL('../../.tools/bin/', import.meta.url));

const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/**
 * What playwright's and puppeteer's pages have in common.
 * @typedef {object} Page
 * @property {(url: string) => Promise<unknown>} goto
 * @property {(call: (argument: any) => any, argument?: any) => Promise<any>} evaluate
 */

/**
 * @typedef {object} Browser
 * @property {Page} page
 * @property {string} version
 * @property {() => Promise<void>} close
 */

/**
 * The profile is a folder, not in memory as a private window's, so that pages find what they
 * downloaded before.
 * @type {Record<string, (profile: string) => Promise<Browser>>}
 */
const LAUNCH = {
  async chromium(profile) {
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: `${BIN}chromium`,
      args: CHROMIUM_FLAGS,
    });
    return {
      page: await context.newPage(),
      version: context.browser()?.version() ?? '',
      close: () => context.close(),
    };
  },
  async firefox(profile) {
    const browser = await puppeteer.launch({
      browser: 'firefox',
      executablePath: `${BIN}firefox`,
      userDataDir: profile,
      protocolTimeout: 0,
    });
    return {
      page: /** @type {any} */ (await browser.newPage()),
      version: await browser.version(),
      close: () => browser.close(),
    };
  },
};

/**
 * A browser with a profile of its own, which goes with it.
 * @param {string} name
 * @returns {Promise<Browser>}
 */
export async function launch(name) {
  if (!LAUNCH[name]) throw new Error(`no browser '${name}'; there are ${Object.keys(LAUNCH)}`);
  const profile = mkdtempSync(`${tmpdir()}/wisp-bench-`);
  const browser = await LAUNCH[name](profile);
  return {
    ...browser,
    async close() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
