// SPDX-License-Identifier: Apache-2.0
// Damaged models through the package: finite rows or a typed error, and never a trap or a hang.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { SEED, amount, report } from './campaign/amount.mjs';
import { original } from './campaign/mutants.mjs';
import { ROOT, smallCalibratedModel, smallModel, smallTypedModel } from './support.mjs';

const THREAD = new URL('./campaign/mutants-thread.mjs', import.meta.url);

/** A thread that says nothing for longer than a promise may take hangs in a call. */
const LONGEST_MS = 180_000;

describe('damaged models', () => {
  /** @type {import('./campaign/mutants.mjs').Original[]} */
  let originals;
  before(() => {
    const paths = [
      ...['cls12', 'nomic', 'prompted', 'mean-shards'].map((name) => smallModel(name)),
      smallCalibratedModel(),
      smallCalibratedModel('nomic'),
      smallTypedModel('q8_0'),
      smallTypedModel('q4_0'),
    ];
    originals = paths.map((path) => original(new Uint8Array(readFileSync(path))));
  });

  for (const [workers, numbers] of /** @type {const} */ ([
    [0, { sample: 200, all: 2000, campaign: 20_000 }],
    [1, { sample: 20, all: 200, campaign: 2000 }],
  ])) {
    const where = workers ? 'in workers' : 'on the calling thread';
    test(`finite rows or a typed error, ${where}`, async () => {
      const count = amount(`damaged models ${where}`, numbers);
      const counts = await tryInThread({ originals, seed: SEED, first: 0, count, workers });
      report(`damaged models ${where}`, counts);
      assert.equal(counts.models, count);
      assert.ok(counts.embedded > 0, 'none was good enough to embed');
    });
  }
});

/**
 * @param {object} data of tryMutants
 * @returns {Promise<Record<string, number>>}
 */
async function tryInThread(data) {
  const worker = new Worker(THREAD, { workerData: data, execArgv: [] });
  let last = 0;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  try {
    return await new Promise((resolve, reject) => {
      const hangs = () => reject(new Error(`model ${last} of seed ${SEED} hangs`));
      timer = setTimeout(hangs, LONGEST_MS);
      worker.on('error', reject);
      worker.on('exit', () => reject(new Error(`the thread ended at model ${last}`)));
      worker.on('message', ({ number, counts, error, bytes }) => {
        clearTimeout(timer);
        if (error) reject(new Error(error + saved(bytes)));
        else if (counts) resolve(counts);
        else {
          last = number;
          timer = setTimeout(hangs, LONGEST_MS);
        }
      });
    });
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}

/**
 * Keeps the bytes of a model that failed, and says where.
 * @param {Uint8Array | undefined} bytes
 */
function saved(bytes) {
  if (!bytes) return '';
  const path = 'build/campaign/failed.gguf';
  mkdirSync(`${ROOT}build/campaign`, { recursive: true });
  writeFileSync(`${ROOT}${path}`, bytes);
  return `\nkept as ${path}`;
}
