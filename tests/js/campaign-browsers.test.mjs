// SPDX-License-Identifier: Apache-2.0
// Damaged models, and workers killed under load, in browsers.
import { after, before, describe, test } from 'node:test';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import { SEED, amount, report } from './campaign/amount.mjs';
import { noTool, onlyInAll, smallCalibratedModel, smallModel } from './support.mjs';

const PAGE = '/tests/js/page/blank.html';

const MODELS = [smallModel('cls12'), smallModel('nomic'), smallCalibratedModel()].map(
  (path) => `/build/test-models/${path.split('/').at(-1)}`,
);

/** Kills and models of one call into a page: a browser's driver waits for a call for minutes only. */
const KILLS_AT_ONCE = 250;
const MODELS_AT_ONCE = 1000;

for (const name of ['chromium', 'firefox']) {
  const inOneBrowser = name === 'chromium' ? false : onlyInAll;
  describe(`${name}: campaign`, { skip: inOneBrowser || noTool(name) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Record<'plain' | 'isolated', Awaited<ReturnType<typeof serve>>>} */
    let servers;
    before(async () => {
      servers = { plain: await serve(), isolated: await serve({ isolated: true }) };
      tab = await launch[name]();
    });
    after(async () => {
      await tab.close();
      await Promise.all(Object.values(servers).map((server) => server.close()));
    });

    for (const [kind, model, poison] of /** @type {const} */ ([
      ['plain', MODELS[0], true],
      ['isolated', '/models/wisp-default.gguf', false],
    ])) {
      const skip = kind === 'isolated' && onlyInAll;
      test(`${kind} page: workers are killed under load`, { skip }, async () => {
        const what = `${name}, ${kind} page`;
        const kills = amount(`kills, ${what}`, { sample: 5, all: 40, campaign: 1000 });
        const texts = amount(`texts, ${what}`, {
          sample: 100,
          all: poison ? 2000 : 300,
          campaign: poison ? 10_000 : 2000,
        });
        await tab.open(servers[kind].origin + PAGE);
        for (let done = 0; done < kills; done += KILLS_AT_ONCE) {
          const some = Math.min(KILLS_AT_ONCE, kills - done);
          const how = { model, poison, seed: SEED + done, texts, kills: some };
          report(`kills, ${what}`, await tab.call('killWorkers', how));
        }
      });
    }

    for (const [workers, numbers] of /** @type {const} */ ([
      [0, { sample: 40, all: 400, campaign: 5000 }],
      [1, { sample: 10, all: 50, campaign: 500 }],
    ])) {
      const where = workers ? 'in workers' : "on the page's thread";
      test(`damaged models ${where}: finite rows or a typed error`, async () => {
        const count = amount(`damaged models ${where}, ${name}`, numbers);
        await tab.open(servers.plain.origin + PAGE);
        for (let first = 0; first < count; first += MODELS_AT_ONCE) {
          const some = Math.min(MODELS_AT_ONCE, count - first);
          const how = { models: MODELS, seed: SEED, first, count: some, workers };
          report(`damaged models ${where}, ${name}`, await tab.call('loadMutants', how));
        }
      });
    }
  });
}
