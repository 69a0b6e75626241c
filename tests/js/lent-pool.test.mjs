// SPDX-License-Identifier: Apache-2.0
// How pools lend the model of a page, tested without a browser: workers only take down what they are sent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WispError } from '../../js/base/errors.js';
import { OneTaskJob } from '../../js/calls/job.js';
import { Pool } from '../../js/calls/pool.js';
import { noTotals } from '../../js/engine/usage.js';

const USAGE = { ...noTotals(), memoryBytes: 0 };

/** @typedef {{ message: any, reply: (message: any) => void }} Sent */

/**
 * A pool with a lent model, and what its workers were sent and have not answered.
 * @param {{ size: number, idleTimeout?: number, model: any, start?: any }} parts
 */
function lendingPool({ size, idleTimeout = Infinity, model, start }) {
  /** @type {Sent[]} */
  const sent = [];
  const pool = new Pool({
    size,
    start:
      start ??
      ((/** @type {any} */ { reply }) => ({
        post: (/** @type {any} */ message) => sent.push({ message, reply }),
        hold() {},
        async stop() {},
      })),
    files: Promise.resolve(/** @type {any} */ ([undefined, model])),
    options: {},
    queueLimit: Infinity,
    idleTimeout,
  });
  return { pool, sent };
}

const turns = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done));
};

/** @param {Sent} sent */
const answer = ({ message: { id, model }, reply }) =>
  reply({ id, type: 'done', value: {}, usage: USAGE, lent: model?.bytes });

const lentModel = () => ({ size: 8, from: { url: 'u', state: 's' }, bytes: new ArrayBuffer(8) });

test('workers open lent bytes one after the other, and those that come back all at once', async () => {
  const { pool, sent } = lendingPool({ size: 3, idleTimeout: 1, model: lentModel() });
  const opening = pool.open(() => {});
  for (let i = 0; i < 3; i++) {
    await turns();
    assert.equal(sent.length, 1, 'one worker has the bytes');
    assert.equal(sent[0].message.model.bytes.byteLength, 8);
    answer(/** @type {Sent} */ (sent.pop()));
  }
  await opening;
  while (pool.stats().workers > 0) await new Promise((done) => setTimeout(done, 5));
  const jobs = Array.from({ length: 3 }, () =>
    pool.submit(new OneTaskJob({ type: 'tokenize', text: 'a' })),
  );
  jobs.forEach((job) => job.catch(() => {}));
  await turns();
  assert.deepEqual(
    sent.map(({ message }) => [message.type, message.model.bytes]),
    Array(3).fill(['open', undefined]),
  );
  await pool.destroy();
});

test('a worker that could not start takes no bytes from the pool that is opened instead of its own', async () => {
  const model = lentModel();
  const start = (/** @type {any} */ { end }) => {
    queueMicrotask(() => end(new WispError('worker', 'it could not start')));
    return { post() {}, hold() {}, async stop() {} };
  };
  const { pool: failing } = lendingPool({ size: 1, model, start });
  await assert.rejects(
    failing.open(() => {}),
    /it could not start/,
  );
  const { pool, sent } = lendingPool({ size: 1, model });
  const opening = pool.open(() => {});
  await turns();
  assert.equal(sent[0].message.model.bytes?.byteLength, 8);
  answer(sent[0]);
  await opening;
  await pool.close();
});
