// SPDX-License-Identifier: Apache-2.0
// The extension of docs/frameworks.md in Chromium.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { chromium } from 'playwright-core';
import { CHROMIUM } from './browsers.mjs';
import { blocksOf, fileOf } from './guide/blocks.mjs';
import { ROOT, noTool } from './support.mjs';

const home = mkdtempSync(join(tmpdir(), 'wisp-extension-'));
after(() => rmSync(home, { recursive: true }));

test('an extension searches', { skip: noTool('chromium') }, async () => {
  for (const block of blocksOf(readFileSync(`${ROOT}docs/frameworks.md`, 'utf8'))) {
    const name = fileOf(block);
    if (block.section !== 'A Chrome extension' || !name) continue;
    mkdirSync(dirname(join(home, name)), { recursive: true });
    writeFileSync(join(home, name), block.code);
  }
  const extension = join(home, 'extension');
  for (const folder of ['js', 'models'])
    cpSync(ROOT + folder, join(extension, 'wisp-engine', folder), { recursive: true });
  const context = await chromium.launchPersistentContext(join(home, 'profile'), {
    ...CHROMIUM,
    headless: false,
    args: [
      ...CHROMIUM.args,
      '--headless=new',
      `--disable-extensions-except=${extension}`,
      `--load-extension=${extension}`,
    ],
  });
  try {
    const page = await context.newPage();
    await page.goto('chrome://extensions');
    const id = await page.evaluate(
      `new Promise((done) => chrome.developerPrivate.getExtensionsInfo({}, ([{ id }]) => done(id)))`,
    );
    /** @type {string[]} */
    const faults = [];
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
    await page.goto(`chrome-extension://${id}/popup.html`);
    await page.locator('#question').fill('what should I cook?');
    await page
      .locator('#answer', { hasText: 'Grandmother makes leek soup.' })
      .waitFor()
      .catch((error) => faults.push(String(error)));
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
});
