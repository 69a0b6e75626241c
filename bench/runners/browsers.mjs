// SPDX-License-Identifier: Apache-2.0
// Starts the headless browsers of .tools/, each with a new profile. An entry here adds a browser.
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
 * The functions that pages of playwright and of puppeteer have in common.
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
 * Functions that start each browser. The profile is a folder, not in memory like that of a private
 * window, so that pages find their earlier downloads.
 * @type {Record<string, (profile: string, jsFlags?: string) => Promise<Browser>>}
 */
const LAUNCH = {
  async chromium(profile, jsFlags) {
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: `${BIN}chromium`,
      args: jsFlags ? [...CHROMIUM_FLAGS, `--js-flags=${jsFlags}`] : CHROMIUM_FLAGS,
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
 * Starts a browser with a new profile, which is removed when the browser closes.
 * @param {string} name
 * @param {string} [jsFlags] flags of V8, for Chromium
 * @returns {Promise<Browser>}
 */
export async function launch(name, jsFlags) {
  if (!LAUNCH[name]) throw new Error(`no browser '${name}'; there are ${Object.keys(LAUNCH)}`);
  const profile = mkdtempSync(`${tmpdir()}/wisp-bench-`);
  const browser = await LAUNCH[name](profile, jsFlags);
  return {
    ...browser,
    async close() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
