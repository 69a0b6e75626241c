// SPDX-License-Identifier: Apache-2.0
// Tests what all pages in web-demo/ share, and the pages that search documents, compare and show documents.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { Embedder } from '../../js/node.js';
import { serve } from '../../js/program/serve.js';
import { rowsOf, tidy } from '../../web-demo/document-text.js';
import { applyPatch, decompress } from '../../web-demo/patch.js';
import { CHROMIUM } from './browsers.mjs';
import { withPageAt } from './demo-page.mjs';
import { CONTRASTS, findFaint, findSmallTargets } from './looks.mjs';
import { DEFAULT_MODEL_PATH, ROOT, noTool } from './support.mjs';

const PAGES = readdirSync(`${ROOT}web-demo`).filter((name) => name.endsWith('.html'));
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const STAND_IN = '/transformers-stand-in.js';

/** @typedef {import('playwright-core').Page} Page */

const textOf = (/** @type {string} */ path) => readFileSync(`${ROOT}web-demo/${path}`, 'utf8');

test('all pages have one navigation, which says where one is', () => {
  const navigations = PAGES.map((name) => {
    const [nav] = /<header>[^]*?<\/header>/.exec(textOf(name)) ?? [''];
    const [, current] = /href="([\w.]+)" aria-current="page"/.exec(nav) ?? [];
    assert.equal(current, name);
    for (const [, to] of nav.matchAll(/href="([\w.]+)"/g)) assert.ok(PAGES.includes(to), to);
    return nav.replace(' aria-current="page"', '');
  });
  assert.equal(new Set(navigations).size, 1);
  assert.equal([...navigations[0].matchAll(/href/g)].length, PAGES.length + 1);
});

test('tables are read by RFC 4180', () => {
  const text = 'a,b\r\n"x, ""y""\nz",2\r\n\r\n3,\r\n';
  assert.deepEqual(rowsOf(text, ','), [['a', 'b'], ['x, "y"\nz', '2'], ['3', '']]); // prettier-ignore
  assert.deepEqual(rowsOf('a\tb,c', '\t'), [['a', 'b,c']]);
  assert.deepEqual(rowsOf('', ','), []);
  assert.equal(tidy(' a \r\n\r\n\r\n  b\t c '), 'a\n\nb c');
});

test('the patch makes a calibrated model of the one that comes with wisp', async () => {
  const patch = await decompress(new Blob([readFileSync(`${ROOT}web-demo/calibrated.patch.gz`)]));
  const made = applyPatch(readFileSync(DEFAULT_MODEL_PATH), patch);
  const text = 'A cat is asleep in the sun.';
  const rows = [];
  for (const predictor of /** @type {const} */ (['lowrank', 'dense'])) {
    const embedder = await Embedder.load(made, { workers: 0, predictor });
    rows.push((await embedder.embed(text)).row(0));
    await embedder.close();
  }
  const plain = await Embedder.load(undefined, { workers: 0, predictor: 'dense' });
  rows.push((await plain.embed(text)).row(0));
  await plain.close();
  const [sparse, dense, own] = rows;
  assert.deepEqual(dense, own);
  const cosine = sparse.reduce((sum, x, i) => sum + x * dense[i], 0);
  assert.ok(cosine > 0.98 && cosine < 0.99999, `${cosine}`);
  assert.throws(() => applyPatch(made, Uint8Array.of(4, 9)), /step 9/);
  assert.throws(() => applyPatch(made, Uint8Array.of(4, 1, 0, 3, 0)), /3 bytes of 4/);
});

describe('pages', { skip: noTool('chromium') }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof serve>>} */
  let server;
  before(async () => {
    const files = { [STAND_IN]: `${ROOT}tests/js/page/transformers-stand-in.mjs` };
    server = await serve({ files });
    browser = await chromium.launch(CHROMIUM);
  });
  after(async () => {
    await browser.close();
    await server.close();
  });

  /**
   * @param {string} path
   * @param {(page: Page) => Promise<void>} body
   * @param {import('playwright-core').BrowserContextOptions} [options]
   */
  const withPage = (path, body, options = {}) =>
    withPageAt(browser, `${server.origin}/web-demo/${path}`, options, body);

  /** @param {Page} page @param {string} name of data of the page @param {string} [value] */
  const until = (page, name, value) =>
    page.waitForFunction(
      ([key, wanted]) => {
        const found = document.documentElement.dataset[/** @type {string} */ (key)];
        return wanted === undefined ? found !== undefined : found === wanted;
      },
      [name, value],
      { timeout: 60_000 },
    );

  /** What each page shows when it has begun. @type {Record<string, string>} */
  const BEGUN = { 'weights.html': 'drawn', 'read.html': 'read' };

  for (const name of PAGES) {
    test(`${name}: axe finds nothing, at phone width nothing overflows`, () =>
      withPage(name, async (page) => {
        await until(page, BEGUN[name] ?? 'ready');
        const bar = await page.locator('header nav').boundingBox();
        assert.ok(bar && bar.height < 48, 'the navigation wraps');
        await page.evaluate(AXE);
        await page.setViewportSize({ width: 360, height: 800 });
          const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run()); // prettier-ignore
          assert.deepEqual(
            violations.map((/** @type {any} */ { id, nodes }) => [id, nodes[0].html]),
            [],
          );
        const wide = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(wide, 0);
        assert.deepEqual(await page.evaluate(findFaint, CONTRASTS), []);
        assert.deepEqual(await page.evaluate(findSmallTargets), []);
      }, { viewport: { width: 1280, height: 800 } })); // prettier-ignore
  }

  test('neurons: a token needs fewer than the text; where more rest, the quality is less', () =>
    withPage('neurons.html', async (page) => {
      const text = 'a cat asleep in the sun';
      const quality = async () => Number(await page.locator('#quality').innerText());
      const percent = async (/** @type {string} */ id) => Number(/(\d+) %/.exec(await page.locator(id).innerText())?.[1]); // prettier-ignore
      await until(page, 'measured', `${text} 84`);
      assert.ok((await quality()) > 0.97 && (await quality()) < 1);
      for (const id of ['time-sparse', 'time-dense'])
        assert.match(await page.locator(`#${id}`).innerText(), /^[\d.]+ ms$/);
      const tokens = page.locator('#tokens button');
      assert.deepEqual(await tokens.allInnerTexts(), ['[begin]', ...text.split(' '), '[end]']);
      const all = await percent('#all-share');
      for (let i = 0; i < 3; i++) {
        await tokens.nth(i).click();
        assert.equal(await page.locator('#tokens [aria-pressed=true]').count(), 1);
        const one = await percent('#one-share');
        assert.ok(one > 0 && one < all / 2, `${one} of ${all}`);
      }
      const before = await quality();
      await page.getByLabel('Neurons that rest').fill('97');
      await until(page, 'measured', `${text} 97`);
      assert.ok((await quality()) < before);
      assert.ok((await percent('#all-share')) < all);
    }));

  test('documents are read, searched with the sentence marked, kept, and removed', () =>
    withPage('documents.html', async (page) => {
      await until(page, 'ready');
      const filler = 'The committee met on Tuesday and agreed on the minutes. '.repeat(40);
      await page.locator('#files').setInputFiles([
        { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from(`${filler}A bear came into the tent. ${filler}`) }, // prettier-ignore
        { name: 'b.html', mimeType: 'text/html', buffer: Buffer.from('<script>bears()</script><p>The bank asks for <b>interest</b>.</p><p>Snow fell.') }, // prettier-ignore
        { name: 'c.csv', mimeType: 'text/csv', buffer: Buffer.from('name,food\nPanda,"bamboo, leaves"\n') }, // prettier-ignore
      ]);
      await until(page, 'added', 'a.txt,b.html,c.csv');
      assert.match(await page.locator('#documents').innerText(), /a\.txt\s+\d\d passages[^]*b\.html\s+1 passage\s[^]*c\.csv\s+1 passage\s/); // prettier-ignore
      /** @param {string} text */
      const marked = async (text) => {
        await page.getByLabel('What are you looking for?').fill(text);
        await until(page, 'searched', text);
        return page.locator('#results mark').first().innerText();
      };
      assert.match(await marked('a wild animal at the camp'), /^A bear came into the tent\./);
      assert.match(await page.locator('#reading mark').innerText(), /A bear came into the tent\./);
      assert.match(await page.locator('#reading-text').innerText(), /^The committee|^[a-z ]+/);
      assert.match(await marked('borrowing costs'), /^The bank asks for interest\./);
      assert.match(await marked('what do black and white bears eat?'), /^name: Panda; food: bamboo, leaves\./); // prettier-ignore
      await page.reload();
      await until(page, 'ready');
      assert.match(await marked('a wild animal at the camp'), /^A bear/);
      await page.getByRole('button', { name: 'Remove a.txt' }).click();
      await page.getByText('The nearest of 2 passages').waitFor();
      await page.locator('#files').setInputFiles({ name: 'd.txt', mimeType: 'text/plain', buffer: Buffer.from([0]) }); // prettier-ignore
      await page.getByRole('alert').getByText('d.txt is not a text').waitFor();
      await page.locator('#files').setInputFiles({ name: 'e.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF') }); // prettier-ignore
      await page.getByText(/e\.pdf: PDF files need pdf\.js.*cdn\.jsdelivr\.net/).waitFor();
    }));

  test('the comparison measures both and draws them; what fails is said', () =>
    withPage(`compare.html?transformers=${STAND_IN}&models=/models/&rounds=2`, async (page) => {
      await page.getByText('transformers.js comes from this server.').waitFor();
      await page.getByLabel('also without quantisation (fp32)').uncheck();
      await page.getByRole('button', { name: 'Load transformers.js, and compare' }).click();
      await until(page, 'compared', 'wisp,transformers.js 0.0 q8');
      assert.equal(await page.locator('.bar').count(), 4);
      const rows = await page.locator('#table tbody tr').allInnerTexts();
      assert.match(rows[0], /^wisp\s[\d.]+ s\s[\d.]+ ms\s[\d.]+ ms\sall\s1\.000$/);
      assert.match(rows[1], /^transformers\.js 0\.0 q8\s[\d.]+ s\s[\d.]+ ms\s[\d.]+ ms\s(1|8|32)\s-?0\.\d{3}$/); // prettier-ignore
      await page.getByLabel('also without quantisation (fp32)').check();
      await page.getByRole('button', { name: 'Load transformers.js, and compare' }).click();
      await page.getByRole('alert').getByText('no fp32 here').waitFor();
      await page.getByRole('button', { name: 'Only wisp' }).click();
      await until(page, 'compared', 'wisp');
    }));

  test('documents of wisp are rendered, and their links lead to pages that are there', () =>
    withPage('read.html?page=docs/javascript.md', async (page) => {
      await until(page, 'read');
      const source = readFileSync(`${ROOT}docs/javascript.md`, 'utf8');
      const headings = source.match(/^#+ .*$/gm)?.length;
      assert.equal(await page.locator('#document').locator('h1, h2, h3, h4').count(), headings);
      const tables = source.match(/^\|[-|: ]+\|$/gm)?.length;
      assert.equal(await page.locator('#document table').count(), tables);
      const prose = await page.locator('#document').locator('p, td, li').allInnerTexts();
      assert.deepEqual(prose.filter((text) => /\]\(|\*\*|^\|/.test(text)), []); // prettier-ignore
      const addresses = await page.locator('a').evaluateAll((links) => links.map((link) => /** @type {HTMLAnchorElement} */ (link).href)); // prettier-ignore
      const own = new Set(addresses.filter((address) => address.startsWith(server.origin)));
      for (const address of own) {
        const { pathname, searchParams } = new URL(address);
        const shown = searchParams.get('page');
        const file = shown ? `${server.origin}/${shown}` : server.origin + pathname;
        assert.equal((await fetch(file)).status, 200, address);
      }
      await page.goto(`${server.origin}/web-demo/read.html?page=../package.json`);
      await page.getByRole('alert').getByText('is not a document of wisp').waitFor();
    }));

  test('after the first visit the search works without a network', async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${server.origin}/web-demo/?q=an injection against illness`);
    await until(page, 'kept');
    await context.setOffline(true);
    await page.reload();
    await until(page, 'searched', 'an injection against illness');
    assert.match(await page.locator('#results .text').first().innerText(), /^Vaccines/);
    await context.close();
  });
});
