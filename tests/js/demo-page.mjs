// SPDX-License-Identifier: Apache-2.0
// Runs tests in a page of web-demo/.
import assert from 'node:assert/strict';

/** @typedef {import('playwright-core').Page} Page */

/**
 * Opens a page of a server and runs `body` with it. A complaint in its console, and a request to another server, is an error,
 * unless `prepare` makes some.
 * @param {import('playwright-core').Browser} browser
 * @param {string} address
 * @param {import('playwright-core').BrowserContextOptions} options
 * @param {(page: Page) => Promise<void>} body
 * @param {(page: Page) => Promise<unknown>} [prepare] the page, before it is opened
 */
export async function withPageAt(browser, address, options, body, prepare) {
  // Tests replace answers, and cannot replace those that a service worker fetches.
  const page = await browser.newPage({ serviceWorkers: 'block', ...options });
  const complaints = /** @type {string[]} */ ([]);
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    const isBlocked = /Service Worker registration blocked/.test(message.text());
    if (['error', 'warning'].includes(message.type()) && !isBlocked)
      complaints.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(new URL(address).origin)) complaints.push(request.url());
  });
  await prepare?.(page);
  await page.goto(address);
  await body(page);
  await page.close();
  if (!prepare) assert.deepEqual(complaints, []);
}
