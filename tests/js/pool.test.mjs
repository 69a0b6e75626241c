// SPDX-License-Identifier: Apache-2.0
// The pool in Node: faults, and resources that must be released.
import assert from 'node:assert/strict';
import { openAsBlob } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Embedder } from '../../js/node.js';
import { cases } from './pool/cases.mjs';
import { smallCalibratedModel, smallModel } from './support.mjs';

const FAULTY = new URL('./pool/faulty-node.mjs', import.meta.url);

/**
 * Node hides an address's query from the script: it is told by its arguments.
 * @param {string} [query]
 * @param {import('node:worker_threads').WorkerOptions} [options]
 */
const makeWorker = (query = '', options) => new Worker(FAULTY, { argv: [query], ...options });

describe('faults', { concurrency: 4 }, () => {
  /** @type {import('./pool/cases.mjs').Env} */
  let env;
  before(async () => {
    env = {
      Embedder,
      model: await openAsBlob(smallModel()),
      calibrated: await openAsBlob(smallCalibratedModel()),
      makeWorker,
      killWorker: (worker) => void worker.terminate(),
      failMessage: (worker) => worker.emit('messageerror', new Error('of the test')),
      missingScript: new URL('./no-such-worker.mjs', import.meta.url).href,
    };
  });
  for (const [name, run] of Object.entries(cases)) test(name, () => run(env));

  test("a worker's JavaScript heap is full", async () => {
    const resourceLimits = { maxOldGenerationSizeMb: 32 };
    const embedder = await Embedder.load(env.model, {
      workers: 1,
      worker: () => makeWorker('', { resourceLimits }),
    });
    await assert.rejects(embedder.embed(['FAULT heap']), { name: 'WispError', code: 'memory' });
    assert.equal((await embedder.embed(['a'])).count, 1);
    await embedder.close();
  });
});

describe('what stays', () => {
  after(() => assert.deepEqual(activeHandles(), []));

  test('nothing, after everything is closed', async () => {
    const embedder = await Embedder.load(smallModel(), { workers: 2 });
    await embedder.embed(['a', 'b']);
    assert.ok(activeHandles().length === 0, 'idle workers do not keep Node running');
    await embedder.close();
  });
});

/** Names of the resources that keep this process running, beside the test runner's own. */
function activeHandles() {
  return process.getActiveResourcesInfo().filter((name) => /Worker|MessagePort/.test(name));
}
