// SPDX-License-Identifier: Apache-2.0
// Workers killed at random moments under load, in Node: every call settles with the bits of the engine
// alone or with a typed error, and the pool recovers.
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';
import { Embedder } from '../../js/node.js';
import { compileBuild } from '../../js/embedding-node.js';
import { SEED, amount, report } from './campaign/amount.mjs';
import { storm, stormTexts } from './campaign/storm.mjs';
import { DEFAULT_MODEL_PATH, smallModel } from './support.mjs';

const FAULTY = new URL('./pool/faulty-node.mjs', import.meta.url);
const PLAIN = new URL('../../js/worker-node.js', import.meta.url);

/** @type {[string, string, boolean, Record<'texts' | 'kills', import('./campaign/amount.mjs').Numbers>][]} */
const STORMS = [
  [
    'a small model, workers that also fail by themselves',
    smallModel(),
    true,
    {
      texts: { sample: 300, all: 3000, campaign: 10_000 },
      kills: { sample: 10, all: 200, campaign: 3000 },
    },
  ],
  [
    'the default model',
    DEFAULT_MODEL_PATH,
    false,
    {
      texts: { sample: 40, all: 400, campaign: 10_000 },
      kills: { sample: 3, all: 40, campaign: 1000 },
    },
  ],
];

for (const [name, path, poison, { texts: most, kills }] of STORMS) {
  test(`workers are killed under load: ${name}`, async () => {
    const texts = stormTexts(amount(`texts of ${name}`, most));
    const model = new Uint8Array(readFileSync(path));
    const engine = await Engine.open(await compileBuild(pickBuild()), model);
    const expected = engine.embed(texts);
    engine.close();
    const counts = await storm({
      Embedder,
      model,
      makeWorker: () => new Worker(poison ? FAULTY : PLAIN, { argv: [''] }),
      killWorker: (worker) => void worker.terminate(),
      seed: SEED,
      texts,
      expected,
      workers: 3,
      kills: amount(`kills of ${name}`, kills),
      poison,
    });
    report(`kills, ${name}`, counts);
  });
}
