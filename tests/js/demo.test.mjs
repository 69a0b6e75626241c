// SPDX-License-Identifier: Apache-2.0
// The page in web-demo/ as people use it, in Chromium.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from '../../tools/serve.mjs';
import { CHROMIUM } from './browsers.mjs';
import { noTool, onlyInAll } from './support.mjs';

/** The contrast that WCAG 2 demands of text that is not large. */
const LEAST_CONTRAST = 4.5;

describe('the page', { skip: noTool('chromium') }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof serve>>} */
  let server;
  before(async () => {
    server = await serve();
    browser = await chromium.launch(CHROMIUM);
  });
  after(async () => {
    await browser.close();
    await server.close();
  });

  /**
   * Runs `body` with the page. A complaint in the page's console is an error.
   * @param {import('playwright-core').BrowserContextOptions} options
   * @param {(page: import('playwright-core').Page) => Promise<void>} body
   * @param {(page: import('playwright-core').Page) => Promise<unknown>} [prepare]
   * @param {string} [name] of the page
   */
  async function withPage(options, body, prepare, name = '') {
    const page = await browser.newPage(options);
    const complaints = /** @type {string[]} */ ([]);
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(server.origin)) complaints.push(request.url());
    });
    await prepare?.(page);
    await page.goto(`${server.origin}/web-demo/${name}`);
    await body(page);
    await page.close();
    if (!prepare) assert.deepEqual(complaints, []);
  }

  /** @param {import('playwright-core').Page} page */
  const ready = (page) => page.getByText(/different lines?$/).waitFor({ timeout: 60_000 });

  /** @param {import('playwright-core').Page} page @param {string} text */
  async function nearest(page, text) {
    await page.getByLabel('What are you looking for?').fill(text);
    await page.waitForFunction(
      (wanted) => document.documentElement.dataset.searched === wanted,
      text,
    );
    return page.locator('#results .text').allTextContents();
  }

  test('loads with progress, searches as one types, says how it runs', () =>
    withPage({}, async (page) => {
      await page.getByRole('progressbar', { name: 'Loading the model' }).waitFor();
      await ready(page);
      assert.equal(await page.getByRole('progressbar').count(), 0);
      const found = await nearest(page, 'what do plants live on?');
      assert.equal(found.length, 10);
      assert.match(found[0], /Plants make sugar|Roots draw water/);
      assert.match(await page.locator('#fact-time').innerText(), /^[\d.]+ ms \(60 lines\)$/);
      assert.match(await page.locator('#fact-query').innerText(), /^[\d.]+ ms$/);
      assert.match(await page.locator('#fact-workers').innerText(), /^\d+$/);
      assert.match(await page.locator('#fact-memory').innerText(), /^\d+\.\d MB/);
      assert.match(await page.locator('#fact-model').innerText(), /wisp-minilm-l6-relu.*384/);
      await page.getByText('How it runs here').click();
      assert.match(
        await page.locator('#how').innerText(),
        /wasm.*SIMD[^]*not cross-origin isolated/,
      );
    }));

  test('lines can be edited, pasted, opened and cleared; markup is text', { skip: onlyInAll }, () =>
    withPage({}, async (page) => {
      await ready(page);
      const area = page.getByLabel('Lines to search');
      await area.fill('<img src=x onerror=alert(1)>\n\nA dragon guards the gold.\nA dragon guards the gold.\nTax forms are due in May.'); // prettier-ignore
      await page.getByText('3 different lines').waitFor();
      assert.equal((await nearest(page, 'a mythical beast'))[0], 'A dragon guards the gold.');
      assert.equal(await page.locator('#results img').count(), 0);
      await page.locator('#file').setInputFiles({
        name: 'notes.txt',
        mimeType: 'text/plain',
        buffer: Buffer.from('rain\r\nsnow\r\n'),
      });
      await page.getByText('2 different lines').waitFor();
      assert.equal((await nearest(page, 'blizzard'))[0], 'snow');
      await page.getByRole('button', { name: 'Clear' }).click();
      await page.getByText('No lines to search').waitFor();
      await page.getByRole('button', { name: 'Sample' }).click();
      await page.getByText('60 different lines').waitFor();
    }),
  );

  test('works by keyboard alone', { skip: onlyInAll }, () =>
    withPage({}, async (page) => {
      await ready(page);
      await page.keyboard.press('/');
      await page.keyboard.type('animals');
      await page.locator('#results .score').first().waitFor();
      const focused = () => page.evaluate(() => document.activeElement?.textContent ?? '');
      for (let i = 0; i < 3; i++) await page.keyboard.press('Tab'); // the three ideas
      assert.equal(await focused(), 'animals resting');
      await page.keyboard.press('Tab');
      const line = await page.locator('#results .text').first().innerText();
      assert.ok((await focused()).startsWith(line));
      await page.keyboard.press('Enter');
      assert.equal(await page.getByLabel('What are you looking for?').inputValue(), line);
      const more = page.getByRole('button', { name: 'Show more' });
      await more.press('Enter');
      await page.waitForFunction(() => document.querySelectorAll('#results li').length === 20);
      assert.equal(
        await page.evaluate(() => document.activeElement === document.querySelector('#results li:nth-child(11) button')), // prettier-ignore
        true,
      );
    }),
  );

  test('a failed load is said, and can be tried again', { skip: onlyInAll }, () => {
    let fails = true;
    return withPage(
      {},
      async (page) => {
        const alert = page.getByRole('alert');
        await alert.getByText(/could not be loaded \(io\).*HTTP 503/).waitFor();
        fails = false;
        await alert.getByRole('button', { name: 'Try again' }).click();
        await ready(page);
        assert.equal(await alert.isVisible(), false);
      },
      (page) =>
        page.route('**/*.gguf', (route) =>
          fails ? route.fulfill({ status: 503 }) : route.continue(),
        ),
    );
  });

  /**
   * @param {import('playwright-core').BrowserContextOptions} options
   * @param {(page: import('playwright-core').Page) => Promise<void>} body
   */
  const withWriting = (options, body) => withPage(options, body, undefined, 'write.html');

  test('the page that writes tells a story, stops, and says how fast it is', () =>
    withWriting({}, async (page) => {
      const button = page.getByRole('button', { name: 'Write', exact: true });
      await page.getByLabel('How does it begin?').fill('Once upon a time');
      await page.getByLabel('Chance').fill('0');
      await button.click();
      await page.getByText('The length is reached.').or(page.getByText('The end.')).waitFor();
      assert.match(
        await page.locator('#story').innerText(),
        /^Once upon a time, there was a little girl named Lily\./,
      );
      assert.match(await page.locator('#fact-speed').innerText(), /^[\d,]+ tokens\/s$/);
      assert.match(await page.locator('#fact-first').innerText(), /^[\d.]+ ms$/);
      assert.match(await page.locator('#fact-tokens').innerText(), /^\d+ \(and 5 of yours\)$/);
      assert.match(await page.locator('#model').innerText(), /^stories260K: llama, 0\.3 million/);
      await page.locator('#file').setInputFiles('models/wisp-stories.gguf');
      await page.getByText(/^wisp-stories\.gguf: llama/).waitFor();
      await page.getByRole('button', { name: 'The moon was very sad because' }).click();
      await page.getByText(/^(The end|The length is reached|Stopped)\.$/).waitFor();
      assert.match(await page.locator('#story').innerText(), /^The moon was very sad because ?\w/);
      await page.locator('#file').setInputFiles('models/README.md');
      await page
        .getByRole('alert')
        .getByText(/could not be loaded \(format\)/)
        .waitFor();
      assert.ok(await button.isEnabled(), 'the model before it is gone');
      await page.getByRole('link', { name: 'Search by meaning' }).click();
      await page.getByRole('link', { name: 'A page that writes' }).waitFor();
    }));

  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    test(`${colorScheme}, the page that writes at phone width`, () =>
      withWriting({ colorScheme, viewport: { width: 360, height: 740 } }, async (page) => {
        await page.getByLabel('How does it begin?').fill('unbroken'.repeat(20));
        await page.getByRole('button', { name: 'Write', exact: true }).click();
        await page.getByText(/^(The end|The length is reached|The model remembers)/).waitFor();
        const wide = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(wide, 0);
        assert.deepEqual(await page.evaluate(findFaint, LEAST_CONTRAST), []);
        assert.deepEqual(await page.evaluate(findSmallTargets), []);
      }));

    test(`${colorScheme}, at phone width: nothing overflows, everything can be read`, () =>
      withPage({ colorScheme, viewport: { width: 360, height: 740 } }, async (page) => {
        await ready(page);
        await page.getByLabel('Lines to search').fill(`${'unbroken'.repeat(40)}\na line`);
        await page.getByText('2 different lines').waitFor();
        await nearest(page, 'a line');
        const wide = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(wide, 0);
        assert.deepEqual(await page.evaluate(findFaint, LEAST_CONTRAST), []);
        assert.deepEqual(await page.evaluate(findSmallTargets), []);
      }));
  }
});

/**
 * Runs in the page. Returns texts whose contrast with their background is too low.
 * @param {number} least
 */
function findFaint(least) {
  /** @param {string} color */
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  /** @param {number[]} rgb */
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  /** @param {Element | null} element @returns {number[]} */
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const [r, g, b, a = 1] = channels(getComputedStyle(element).backgroundColor);
    return a > 0 ? [r, g, b] : behind(element.parentElement);
  };
  return [...document.querySelectorAll('body *')].flatMap((element) => {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue?.trim()); // prettier-ignore
    if (!hasText || !element.checkVisibility()) return [];
    const pair = [channels(getComputedStyle(element).color).slice(0, 3), behind(element)].map(luminance); // prettier-ignore
    const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    return contrast < least ? [`${element.textContent}: ${contrast.toFixed(2)}`] : [];
  });
}

/** Runs in the page. Returns buttons that are too small for a finger. */
function findSmallTargets() {
  return [...document.querySelectorAll('button')]
    .filter((button) => button.checkVisibility())
    .map((button) => ({ name: button.textContent, ...button.getBoundingClientRect().toJSON() }))
    .filter(({ width, height }) => width < 40 || height < 40);
}
