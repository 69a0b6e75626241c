// SPDX-License-Identifier: Apache-2.0
// The page in web-demo/ as people use it, in Chromium.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from '../../js/program/serve.js';
import { passagesOf } from '../../web-demo/lines.js';
import { CHROMIUM } from './browsers.mjs';
import { withPageAt } from './demo-page.mjs';
import { CONTRASTS, findFaint, findSmallTargets } from './looks.mjs';
import { noTool, onlyInAll } from './support.mjs';

test('long lines are divided where sentences or words end, and nothing of them is lost', () => {
  const sentence = 'A sentence of some words, which ends here. ';
  for (const line of [
    sentence.repeat(60),
    'words without an end '.repeat(100),
    'unbroken'.repeat(300),
    '\u{1f600}'.repeat(700),
    `${'x'.repeat(599)}\u{1f600}`,
    'short',
  ]) {
    const passages = passagesOf(line.trim());
    assert.equal(passages.join('').replaceAll(' ', ''), line.replaceAll(' ', ''));
    for (const passage of passages) {
      assert.ok(passage.length <= 600, passage);
      assert.doesNotMatch(passage, /^[\udc00-\udfff]|[\ud800-\udbff]$/);
    }
  }
  for (const passage of passagesOf(sentence.repeat(60).trim()))
    assert.match(passage, /^A .*here\.$/);
});

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
   * @param {import('playwright-core').BrowserContextOptions} options
   * @param {(page: import('playwright-core').Page) => Promise<void>} body
   * @param {(page: import('playwright-core').Page) => Promise<unknown>} [prepare]
   * @param {string} [name] of the page
   */
  const withPage = (options, body, prepare, name = '') =>
    withPageAt(browser, `${server.origin}/web-demo/${name}`, options, body, prepare);

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

  test('while lines are read, those that have been read are found; no line is read twice', () =>
    withPage({}, async (page) => {
      await ready(page);
      await nearest(page, 'number forty-two');
      await page.evaluate(() => {
        const status = /** @type {HTMLElement} */ (document.getElementById('status'));
        const seen = /** @type {string[]} */ ([]);
        Object.assign(globalThis, { seen });
        new MutationObserver(() => seen.push(status.innerText)).observe(status, {
          childList: true,
        });
      });
      const area = page.getByLabel('Lines to search');
      const lines = Array.from({ length: 300 }, (_, i) => `This is line number ${i}.`);
      await area.fill(lines.join('\n'));
      await page.waitForFunction(() =>
        /read so far/.test(/** @type {any} */ (globalThis).seen.join()),
      );
      await area.fill([...lines, 'One more.'].join('\n'));
      await page.getByText('301 different lines').waitFor({ timeout: 60_000 });
      // One loop has read all of them, or a second one the line that was added.
      assert.match(await page.locator('#fact-time').innerText(), /\((301 lines|1 line)\)$/);
      await area.fill([...lines, 'Another one.'].join('\n'));
      await page.waitForFunction(() => /\(1 line\)/.test(document.getElementById('fact-time')?.innerText ?? '')); // prettier-ignore
      const seen = await page.evaluate(() => /** @type {string[]} */ (/** @type {any} */ (globalThis).seen)); // prettier-ignore
      assert.ok(!seen.some((text) => /No lines/.test(text)), seen.join('\n'));
      assert.match(await page.locator('#status').innerText(), /^The nearest of 301 lines$/);
    }));

  test('what Sample and Clear replace can be brought back, and outlives a reload', () =>
    withPage({}, async (page) => {
      await ready(page);
      const area = page.getByLabel('Lines to search');
      const undo = page.getByRole('button', { name: 'Undo' });
      assert.equal(await undo.isVisible(), false);
      await area.fill('A dragon guards the gold.\nTax forms are due in May.');
      await page.getByText('2 different lines').waitFor();
      await page.getByText('These lines are yours.').waitFor();
      await page.getByRole('button', { name: 'Clear' }).click();
      await undo.click();
      assert.match(await area.inputValue(), /^A dragon/);
      await page.getByRole('button', { name: 'Sample' }).click();
      assert.match(await area.inputValue(), /^Plants/);
      await undo.click();
      assert.match(await area.inputValue(), /^A dragon/);
      await nearest(page, 'paying the state');
      await page.waitForURL('**/web-demo/?q=paying+the+state');
      await page.reload();
      await page.getByText('The nearest of 2 lines').waitFor({ timeout: 60_000 });
      assert.match(await area.inputValue(), /^A dragon/);
      assert.match(await page.locator('#results .text').first().innerText(), /^Tax forms/);
      await nearest(page, '');
      await page.waitForURL('**/web-demo/');
    }));

  test('a link has the question; each idea finds what has none of its words', () =>
    withPage(
      {},
      async (page) => {
        await page.getByText('The nearest of 60 lines').waitFor({ timeout: 60_000 });
        const first = () => page.locator('#results .text').first().innerText();
        assert.match(await first(), /^Vaccines/);
        for (const [idea, found] of [
          ['what do plants live on?', /^Plants make sugar/],
          ['in debt', /^She still owes the bank/],
          ['animals resting', /^A cat and a dog are asleep/],
        ]) {
          await page.getByRole('button', { name: /** @type {string} */ (idea) }).click();
          await page.waitForFunction(
            (wanted) => document.documentElement.dataset.searched === wanted,
            idea,
          );
          assert.match(await first(), /** @type {RegExp} */ (found));
        }
        for (const link of await page.locator('#about a').all()) {
          const url = new URL(String(await link.getAttribute('href')), page.url());
          assert.equal((await fetch(url)).status, 200, url.href);
        }
        assert.match(await page.locator('#neurons').innerText(), /\b[5-9]\d % of the neurons/);
      },
      undefined,
      '?q=an injection against illness',
    ));

  test('passages of a long line are found', { skip: onlyInAll }, () =>
    withPage({}, async (page) => {
      await ready(page);
      const filler = 'The committee met on Tuesday and agreed on the minutes. '.repeat(30);
      await page
        .getByLabel('Lines to search')
        .fill(`${filler}Suddenly a bear came into the tent. ${filler}\nA short line.`);
      await page.getByText(/passages of 2 different lines/).waitFor({ timeout: 60_000 });
      const [found] = await nearest(page, 'a wild animal at the camp');
      assert.match(found, /a bear came/);
      assert.ok(found.length <= 600);
    }),
  );

  test('without JavaScript the page says what it needs', { skip: onlyInAll }, async () => {
    const page = await browser.newPage({ javaScriptEnabled: false });
    await page.goto(`${server.origin}/web-demo/`);
    const { height } = (await page.locator('noscript p').boundingBox()) ?? { height: 0 };
    assert.ok(height > 0, 'it says nothing');
    assert.equal(await page.getByText('Loading').isVisible(), false);
    await page.close();
  });

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
      assert.equal(await focused(), 'Search your own text');
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
      await page.getByRole('link', { name: 'Search' }).click();
      await page.getByText('The nearest of 60 lines').waitFor({ timeout: 60_000 });
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
        assert.deepEqual(await page.evaluate(findFaint, CONTRASTS), []);
        assert.deepEqual(await page.evaluate(findSmallTargets), []);
      }));

    test(`${colorScheme}, at phone width: nothing overflows, everything can be read`, () =>
      withPage({ colorScheme, viewport: { width: 360, height: 740 } }, async (page) => {
        await ready(page);
        const area = page.getByLabel('Lines to search');
        const isSeen = () => area.evaluate((element) => element.getBoundingClientRect().top < innerHeight); // prettier-ignore
        assert.equal(await isSeen(), false);
        await page.getByRole('button', { name: 'Search your own text' }).click();
        assert.equal(await isSeen(), true);
        await page.keyboard.type('mine'); // takes the place of the sample
        assert.equal(await area.inputValue(), 'mine');
        await area.fill(`${'unbroken'.repeat(40)}\na line`);
        await page.getByText('2 different lines').waitFor();
        await nearest(page, 'a line');
        const wide = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(wide, 0);
        assert.deepEqual(await page.evaluate(findFaint, CONTRASTS), []);
        assert.deepEqual(await page.evaluate(findSmallTargets), []);
      }));
  }
});
