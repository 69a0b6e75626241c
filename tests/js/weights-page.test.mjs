// SPDX-License-Identifier: Apache-2.0
// The page of weights, in real browsers: it shows what the program wisp prints of the same file.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { serve } from '../../js/program/serve.js';
import { chromium } from 'playwright-core';
import { CHROMIUM, launch } from './browsers.mjs';
import { withPageAt } from './demo-page.mjs';
import { CONTRASTS, findFaint, findSmallTargets } from './looks.mjs';
import { ROOT, noTool, onlyInAll, smallModel, wisp } from './support.mjs';

const MODEL = 'models/wisp-stories.gguf';
const FOLDER = 'tests/data/models/cls12';
const CUT = 'build/test-models/cut.gguf';

/** The page's script has the types by name. */
const [, LISTED] = /const TYPES = \[(.*?)\];/s.exec(readFileSync(`${ROOT}web-demo/weights.js`, 'utf8')) ?? []; // prettier-ignore
const TYPES = [...String(LISTED).matchAll(/'(\w+)'/g)].map(([, type]) => type);

/** @param {string[]} args @returns {any} */
const printed = (args) => JSON.parse(wisp([...args, '--format', 'json']).out);

/** @param {string} model @param {string} type */
const dryRun = (model, type) =>
  printed([
    ...['quantize', '--dry-run', '--type', type, '--fallback', 'f16', '--sample', '65536'],
    `${ROOT}${model}`,
  ]).types[0];

test('the page measures the types that wisp quantize writes', () => {
  const { out } = wisp(['quantize', '--help']);
  const [, listed] = /--type TYPE +type of the matrices: ([\s\S]*?), which is/.exec(out) ?? [];
  assert.deepEqual(TYPES, String(listed).split(/,\s+| or\s+/));
});

for (const name of ['chromium', 'firefox']) {
  const skip = (name === 'firefox' && onlyInAll) || noTool(name);
  describe(`the page of weights in ${name}`, { skip }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Awaited<ReturnType<typeof serve>>} */
    let server;
    before(async () => {
      smallModel();
      writeFileSync(`${ROOT}${CUT}`, readFileSync(`${ROOT}${MODEL}`).subarray(0, 300_000));
      server = await serve();
      tab = await launch[name]();
    });
    after(async () => {
      await tab.close();
      await server.close();
    });
    const open = () => tab.open(`${server.origin}/web-demo/weights.html`);

    test('tensors and costs are those that the program prints', async () => {
      await open();
      const shown = await tab.call('readWeights', [`/${MODEL}`], 'Q8_0');
      assert.equal(shown.failure, '');
      const { tensors } = printed(['inspect', '--histogram', `${ROOT}${MODEL}`]);
      assert.deepEqual(
        shown.tensors.map((/** @type {string[]} */ [tensor, type, values]) => [tensor, type, values]), // prettier-ignore
        tensors.map((/** @type {any} */ { name, type, values }) => [name, type, values.toLocaleString('en')]), // prettier-ignore
      );
      assert.equal(shown.pictures, tensors.length);
      assert.equal(shown.costs.length, TYPES.length);
      const fitting = [];
      for (const [i, type] of TYPES.entries()) {
        const { type: named, tensors: list, bytes } = dryRun(MODEL, type);
        const [label, size, , cosine, least] = shown.costs[i];
        const own = list.filter((/** @type {any} */ each) => each.type === named && !each.fallback);
        assert.ok(label.startsWith(named), label);
        if (own.length === 0) {
          assert.equal(size, 'rows are not whole blocks of this type');
          continue;
        }
        fitting.push(named);
        assert.equal(size, (bytes / 1e6).toFixed(2), named);
        const cosines = own.map((/** @type {any} */ each) => each.cosine);
        assert.equal(least, Math.min(...cosines).toFixed(6), named);
        assert.ok(Number(cosine) >= Number(least) && Number(cosine) <= 1, `${named} ${cosine}`);
        if (type !== 'q8_0') continue;
        const column = shown.tensors.map((/** @type {string[]} */ row) => row[7]);
        assert.deepEqual(
          column,
          tensors.map((/** @type {any} */ { name: tensor, type: own }) => {
            const found = list.find((/** @type {any} */ each) => each.name === tensor);
            if (found.type === named && !found.fallback) return found.cosine.toFixed(6);
            return found.type === own ? `stays ${own}` : `becomes ${found.type}`;
          }),
        );
      }
      assert.deepEqual([...shown.points].sort(), [...fitting].sort());
      assert.equal(shown.chosen, 'Q8_0');
    });

    test('a cut file is an error that says what is wrong; a folder is read after it', async () => {
      const cut = await tab.call('readWeights', [`/${CUT}`]);
      const { err } = wisp(['inspect', '--histogram', `${ROOT}${CUT}`]);
      const reason = err.slice(err.indexOf('cut.gguf')).trim();
      assert.ok(cut.failure.includes(reason), `${cut.failure}, not ${reason}`);
      const names = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'];
      const files = names.map((file) => `/${FOLDER}/${file}`);
      const shown = await tab.call('readWeights', files);
      assert.equal(shown.failure, '');
      const { tensors } = printed(['inspect', '--histogram', `${ROOT}${FOLDER}`]);
      assert.equal(shown.tensors.length, tensors.length);
      const other = shown.tensors.findIndex((/** @type {string[]} */ [name]) => name === 'token_types.weight'); // prettier-ignore
      assert.deepEqual([shown.tensors[other][1], shown.tensors[other][7]], ['F16', 'becomes F32']);
    });

    test('what is chosen last is what it shows', async () => {
      await open();
      await tab.call('giveWeights', [`/${MODEL}`]);
      const { facts, tensors: shown } = await tab.call('readWeights', ['/build/test-models/cls12.gguf']); // prettier-ignore
      const { tensors } = printed(['inspect', '--histogram', smallModel()]);
      assert.deepEqual([facts[0], shown.length], ['cls12.gguf', tensors.length]);
    });

    test('a file that is chosen while the default model comes stays', async () => {
      await open();
      const { facts, came } = await tab.call('readWhileDefaultComes', '/build/test-models/cls12.gguf'); // prettier-ignore
      assert.deepEqual([facts[0], came], ['cls12.gguf', true]);
    });
  });
}

for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
  const skip = (colorScheme === 'dark' && onlyInAll) || noTool('chromium');
  test(
    `${colorScheme}, at phone width: all can be read, links lead somewhere`,
    { skip },
    async () => {
      const server = await serve();
      const browser = await chromium.launch(CHROMIUM);
      const options = { colorScheme, viewport: { width: 360, height: 740 } };
      try {
        await withPageAt(
          browser,
          `${server.origin}/web-demo/weights.html`,
          options,
          async (page) => {
            await page.locator('#files').setInputFiles(smallModel());
            await page.getByText('All of 18 types are measured.').waitFor();
            const wide = await page.evaluate(
              () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
            );
            assert.equal(wide, 0);
            assert.deepEqual(await page.evaluate(findFaint, CONTRASTS), []);
            assert.deepEqual(await page.evaluate(findSmallTargets), []);
            for (const link of await page.locator('a').all()) {
              const url = new URL(String(await link.getAttribute('href')), page.url());
              assert.equal((await fetch(url)).status, 200, url.href);
            }
          },
        );
      } finally {
        await browser.close();
        await server.close();
      }
    },
  );
}

describe('wrong files', { skip: noTool('chromium') }, () => {
  /** @param {(page: import('playwright-core').Page) => Promise<void>} body */
  async function withWeights(body) {
    const server = await serve();
    const browser = await chromium.launch(CHROMIUM);
    try {
      await withPageAt(browser, `${server.origin}/web-demo/weights.html`, {}, body);
    } finally {
      await browser.close();
      await server.close();
    }
  }

  test('a GGUF file among several is an error that says what to give', () =>
    withWeights(async (page) => {
      await page.locator('#files').setInputFiles([smallModel(), `${ROOT}${MODEL}`]);
      await page.getByRole('alert').getByText('give one GGUF file at a time').waitFor();
    }));

  test('a folder that is dropped is an error that says what to do', () =>
    withWeights(async (page) => {
      const devtools = await page.context().newCDPSession(page);
      const told = page.getByRole('alert').getByText('it is a folder');
      // On a busy machine what is dropped may miss a page that is still being laid out.
      for (let i = 0; i < 5 && !(await told.isVisible()); i++) {
        const { x, y } = /** @type {any} */ (await page.locator('#drop').boundingBox());
        for (const type of /** @type {const} */ (['dragEnter', 'drop'])) {
          const data = { items: [], files: [`${ROOT}${FOLDER}`], dragOperationsMask: 1 };
          await devtools.send('Input.dispatchDragEvent', { type, x: x + 9, y: y + 9, data });
        }
        await told.waitFor({ timeout: 5000 }).catch(() => {});
      }
      await told.waitFor();
    }));
});
