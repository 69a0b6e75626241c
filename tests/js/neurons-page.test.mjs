// SPDX-License-Identifier: Apache-2.0
// The page that draws neurons, with a small model, in real browsers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { Embedder } from '../../js/node.js';
import { serve } from '../../js/program/serve.js';
import { Line } from '../../web-demo/line.js';
import { CHROMIUM, launch } from './browsers.mjs';
import { withPageAt } from './demo-page.mjs';
import { shortTexts } from './pool/texts.mjs';
import { CONTRASTS, findFaint, findSmallTargets } from './looks.mjs';
import { ROOT, noTool, onlyInAll, smallColdModel } from './support.mjs';

const MODEL = smallColdModel();
const PATH = '/models/wisp-cold.gguf';
const ADDRESS = `/web-demo/neurons.html?model=${PATH}`;
const files = { [PATH]: MODEL };

/** The page's script, with requests that are small enough for the small model. */
const SCRIPT = '/web-demo/neurons.js';
const body = readFileSync(`${ROOT}${SCRIPT}`, 'utf8').replace('store: false,', '$& first: 4096, gap: 64,'); // prettier-ignore
const page = (/** @type {string} */ path) =>
  path === SCRIPT ? { headers: { 'Content-Type': 'text/javascript' }, body } : undefined;
/** Its words are all hot, so that it waits for neurons only. */
const [TEXT] = shortTexts(1, 3);

/** The text of a button. */
const IDEA = 'a cat asleep in the sun';

test('a slow line: bytes arrive as they were sent, no faster than they may, and an error is an error', async () => {
  const sent = Uint8Array.from({ length: 50_000 }, (_, i) => i % 251);
  let fails = false;
  const line = new Line(async () => {
    const parts = [sent.subarray(0, 7), sent.subarray(7)];
    const body = new ReadableStream({
      pull(controller) {
        const part = parts.shift();
        if (!part) controller.close();
        else if (fails && part.length > 7) controller.error(new TypeError('broken'));
        else controller.enqueue(part);
      },
    });
    return new Response(body, { status: 206, headers: { 'Content-Range': 'bytes 0-49999/50000' } });
  });
  line.speed = 8e6;
  line.delay = 20;
  const start = performance.now();
  const responses = await Promise.all([line.fetch('a'), line.fetch('b')]);
  for (const { status, headers } of responses) {
    assert.deepEqual([status, headers.get('content-range')], [206, 'bytes 0-49999/50000']);
  }
  for (const bytes of await Promise.all(responses.map((response) => response.arrayBuffer()))) {
    assert.deepEqual(new Uint8Array(bytes), sent);
  }
  // Both share the line: 100,000 bytes at a million in a second. Timers may be a little early.
  assert.ok(performance.now() - start > 20 + 100 - 10);
  fails = true;
  await assert.rejects((await line.fetch('a')).arrayBuffer(), /broken/);
});

describe('the page that draws neurons', { skip: noTool('chromium') }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof serve>>} */
  let server;
  before(async () => {
    server = await serve({ files, page });
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
   */
  const withPage = (options, body, prepare) =>
    withPageAt(browser, `${server.origin}${ADDRESS}`, options, body, prepare);

  /** @param {import('playwright-core').Page} page */
  const opened = (page) => page.getByText(/^The model is open: .* were enough\. Now type\.$/).waitFor(); // prettier-ignore

  /** @param {import('playwright-core').Page} page @param {string} text */
  const read = (page, text) =>
    page.waitForFunction((wanted) => document.documentElement.dataset.read === wanted, text);

  /** @param {import('playwright-core').Page} page */
  const expected = (page, predictor = 'lowrank') =>
    page.evaluate(
      `import('/tests/js/page/neurons.mjs').then((all) => all.wholeResults('${PATH}', ${JSON.stringify(TEXT)}, '${predictor}'))`,
    );

  test('a text waits for its neurons, layer by layer; results are those of the whole model', async () => {
    const embedder = await Embedder.load(MODEL, { workers: 0, cold: 'wait' });
    const { hotBytes } = /** @type {any} */ (embedder.stats()).cold;
    await embedder.close();
    /** @type {(() => void)[] | undefined} requests for neurons, which are answered when the test has looked */
    let held;
    await withPage(
      {},
      async (page) => {
        await opened(page);
        assert.match(await page.locator('#file-text').innerText(), /^0\.\d MB of 0\.\d MB are here: \d+ % of the file$/); // prettier-ignore
        const layers = page.locator('#layers li');
        const said = () => layers.locator('span').allInnerTexts();
        for (const text of await said()) {
          assert.match(text, /^\d+ from the start, \d+ not here, 0 used$/);
        }
        held = [];
        await page.locator('#speed').selectOption('');
        await page.getByLabel('Type a few words').fill(TEXT);
        await page
          .getByText(/^Your text has come to layer 1 of \d+, and waits for neurons\.$/)
          .waitFor();
        assert.match((await said())[0], /, [1-9]\d* on their way, .*[1-9]\d* used$/);
        assert.match((await said())[1], / 0 used$/);
        assert.equal(await page.locator('#near output').first().innerText(), '–');
        for (const next of held) next();
        held = undefined;
        await read(page, TEXT);
        const { near, print } = await expected(page);
        assert.deepEqual(await page.locator('#near output').allInnerTexts(), near);
        assert.match(await page.locator('#same').innerText(), new RegExp(`fingerprint is ${print}:`)); // prettier-ignore
        assert.match(
          await page.locator('#status').innerText(),
          /^Your text uses [\d,]+ neurons\. 0\.\d MB were fetched for it, in \d+ requests?\.$/,
        );
        for (const text of await said()) assert.match(text, /fetched, .*[1-9]\d* used$/);
        // The picture of each layer has a name with these words.
        const [first] = await said();
        await page.getByRole('img', { name: `Layer 1 ${first}` }).waitFor();

        // Again, and by keyboard, nothing is fetched; without neurons the result moves, which is shown.
        await page.getByLabel('Type a few words').fill('');
        await page.getByLabel('Type a few words').press('Enter');
        await page.getByLabel('Type a few words').fill(TEXT);
        await page.getByText(/All of them were here: nothing was fetched\.$/).waitFor();
        assert.deepEqual(await page.locator('#near output').allInnerTexts(), near);
        await page.getByLabel('go on without it').check();
        await page.getByText(/^Your text uses .* of them are not here and were left out\.$/).waitFor(); // prettier-ignore
        await read(page, TEXT);
        for (const [i, text] of (await page.locator('#near output').allInnerTexts()).entries()) {
          assert.match(text, /^-?\d\.\d{3} \(/);
          assert.equal(text.replace(/^.*\(|\)$/g, ''), near[i]);
        }
        assert.ok((await said()).some((text) => /\d left out$/.test(text)));
        await page.getByLabel('wait, and fetch the rest meanwhile').check();
        await page.getByText(/: 100 % of the file$/).waitFor();
        await read(page, TEXT);
        assert.deepEqual(await page.locator('#near output').allInnerTexts(), near);
        await page.getByRole('button', { name: 'Start again with nothing' }).click();
        await read(page, TEXT);
        for (const link of await page.locator('a').all()) {
          const url = new URL(String(await link.getAttribute('href')), page.url());
          assert.equal((await fetch(url)).status, 200, url.href);
        }
      },
      (page) =>
        page.route(
          ({ pathname }) => pathname === PATH,
          (route) => {
            const next = () => void route.continue();
            const start = /^bytes=(\d+)/.exec(route.request().headers().range)?.[1];
            if (held && Number(start) >= hotBytes) held.push(next);
            else next();
          },
        ),
    );
  });

  test('colours are those of the states, and nothing is drawn twice in a frame', () =>
    withPage(
      { viewport: { width: 1000, height: 900 } },
      async (page) => {
        await opened(page);
        const colours = () =>
          page.evaluate(() => {
            const canvas = /** @type {HTMLCanvasElement} */ (document.querySelector('#layers canvas')); // prettier-ignore
            const { data } = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d')).getImageData(0, 0, canvas.width, canvas.height); // prettier-ignore
            const style = getComputedStyle(document.documentElement);
            const found = ['hot', 'fetched', 'skipped'].map((name) => {
              const hex = style.getPropertyValue(`--${name}`).trim();
              const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
              let pixels = 0;
              for (let i = 0; i < data.length; i += 4) {
                if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255)
                  pixels++;
              }
              return [name, pixels];
            });
            return Object.fromEntries(found);
          });
        const before = await colours();
        assert.ok(before.hot > 0 && before.fetched === 0 && before.skipped === 0);
        await page.getByRole('button', { name: IDEA }).click();
        await read(page, IDEA);
        await page.getByText(/were fetched for it/).waitFor();
        const after = await colours();
        assert.ok(after.hot > before.hot && after.fetched > 0, JSON.stringify(after));
        const drawn = await page.evaluate(() => /** @type {any} */ (globalThis).drawn);
        assert.ok(drawn.length > 10);
        assert.equal(new Set(drawn).size, drawn.length);
      },
      (page) =>
        page.addInitScript(() => {
          const drawn = /** @type {string[]} */ ([]);
          Object.assign(globalThis, { drawn });
          // Asked for first in each frame, so it is called first in the next one.
          let frame = 0;
          (function count() {
            frame++;
            requestAnimationFrame(count);
          })();
          const { clearRect } = CanvasRenderingContext2D.prototype;
          /** @type {HTMLCanvasElement[]} */
          const canvases = [];
          CanvasRenderingContext2D.prototype.clearRect = function (...of) {
            if (!canvases.includes(this.canvas)) canvases.push(this.canvas);
            drawn.push(`${canvases.indexOf(this.canvas)} in ${frame}`);
            clearRect.apply(this, of);
          };
        }),
    ));

  test('what is missing is said: the model, or a server that sends parts', () => {
    let answer = /** @type {any} */ ({ status: 404 });
    return withPage(
      {},
      async (page) => {
        const alert = page.getByRole('alert');
        await alert.getByText(/^The model could not be opened \(\w+\)/).waitFor();
        await alert.getByText(/wisp-engine calibrate/).waitFor();
        answer = { status: 200, body: readFileSync(MODEL) };
        await alert.getByRole('button', { name: 'Try again' }).click();
        await page.getByText(/^The whole file was fetched, so there is nothing to draw: the server sends the whole file/).waitFor(); // prettier-ignore
        assert.equal(await alert.isVisible(), false);
        await page.getByLabel('Type a few words').fill(TEXT);
        await read(page, TEXT);
        assert.deepEqual(
          await page.locator('#near output').allInnerTexts(),
          (await expected(page, 'auto')).near,
        );
        answer = undefined;
        await page.getByRole('button', { name: 'Start again with nothing' }).click();
        await page.getByRole('img', { name: /^Layer 1 \d/ }).waitFor();
      },
      (page) =>
        page.route(
          ({ pathname }) => pathname === PATH,
          (route) => (answer ? route.fulfill(answer) : route.continue()),
        ),
    );
  });

  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    const skip = colorScheme === 'dark' ? onlyInAll : false;
    test(
      `${colorScheme}, at phone width: nothing overflows, everything can be read`,
      { skip },
      () =>
        withPage({ colorScheme, viewport: { width: 360, height: 740 } }, async (page) => {
          await opened(page);
          await page.getByLabel('Type a few words').fill('unbroken'.repeat(20));
          await read(page, 'unbroken'.repeat(20));
          const wide = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          assert.equal(wide, 0);
          assert.deepEqual(await page.evaluate(findFaint, CONTRASTS), []);
          assert.deepEqual(await page.evaluate(findSmallTargets), []);
          const faint = await page.evaluate(() => {
            const style = getComputedStyle(document.documentElement);
            const light = (/** @type {string} */ name) => {
              const hex = style.getPropertyValue(`--${name}`).trim();
              const [r, g, b] = [1, 3, 5].map((at) => {
                const share = parseInt(hex.slice(at, at + 2), 16) / 255;
                return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
              });
              return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const names = ['hot', 'fetched', 'coming', 'absent', 'skipped'];
            return names.filter((name) => {
              const pair = [light(name), light('ground')];
              return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05) < 3;
            });
          });
          assert.deepEqual(faint, []);
        }),
    );
  }
});

for (const name of ['chromium', 'firefox']) {
  describe(`neurons in ${name}`, { skip: onlyInAll || noTool(name) }, () => {
    for (const isolated of [false, true]) {
      test(`${isolated ? 'an isolated' : 'a plain'} page waits and skips`, async () => {
        const server = await serve({ files, page, isolated });
        const tab = await launch[name]();
        try {
          await tab.open(`${server.origin}${ADDRESS}`);
          const waited = await tab.call('readOnPage', TEXT, 'wait');
          const { near, print } = await tab.call('wholeResults', PATH, TEXT);
          assert.equal(waited.failure, '');
          assert.equal(waited.isolated, isolated);
          assert.deepEqual(waited.near, near);
          assert.match(waited.same, new RegExp(print));
          assert.match(waited.status, /were fetched for it/);
          assert.match(waited.layers[0], /fetched, .*used$/);
          const skipped = await tab.call('readOnPage', TEXT, 'skip');
          assert.equal(skipped.failure, '');
          assert.match(skipped.status, /were left out\.$/);
          assert.match(skipped.near[0], /^-?\d\.\d{3} \(/);
        } finally {
          await tab.close();
          await server.close();
        }
      });
    }
  });
}
