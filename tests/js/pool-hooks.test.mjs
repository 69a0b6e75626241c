// SPDX-License-Identifier: Apache-2.0
// What hooks of a pool hear of its work, and may change of it, tested without an engine.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EmbedJob, OneTaskJob } from '../../js/calls/job.js';
import { Pool } from '../../js/calls/pool.js';
import { noTotals } from '../../js/engine/usage.js';

/** @param {any[]} hooks @param {string[][]} tasks where the texts of tasks are put */
async function openPool(hooks, tasks) {
  const usage = { ...noTotals(), memoryBytes: 0 };
  const pool = new Pool({
    size: 1,
    start: ({ reply }) => ({
      post(/** @type {any} */ { id, type, texts = [] }) {
        if (type === 'embed') tasks.push(texts);
        const value = type === 'embed' ? Float32Array.from(texts, (text) => text.length) : {};
        queueMicrotask(() => reply(/** @type {any} */ ({ id, type: 'done', value, usage })));
      },
      hold() {},
      async stop() {},
    }),
    files: Promise.resolve(/** @type {any} */ ([undefined, {}])),
    options: {},
    queueLimit: 200,
    idleTimeout: Infinity,
    hooks,
  });
  await pool.open(() => {});
  return pool;
}

/** @param {string[]} texts */
const jobOf = (texts) => new EmbedJob(texts, { options: {}, dimensions: 1, maxTokens: 256 });

test('hooks hear of jobs and of results before the caller has them, and add to stats', async () => {
  /** @type {any[]} */
  const heard = [];
  const hooks = [
    {
      submitted: (/** @type {any} */ job) => heard.push(['submitted', job]),
      done: (/** @type {any} */ job, /** @type {any} */ rows) =>
        heard.push(['done', job, [...rows], job.settled]),
      stats: () => ({ more: 1 }),
    },
    { stats: () => ({ another: 2, workers: 'not those of the pool' }) },
  ];
  const pool = await openPool(hooks, []);
  const job = jobOf(['a', 'bbb']);
  assert.deepEqual([...(await pool.submit(job)).values()], [1, 3]);
  assert.deepEqual(heard, [
    ['submitted', job],
    ['done', job, [1, 3], false],
  ]);
  const { more, another, workers } = /** @type {any} */ (pool.stats());
  assert.deepEqual([more, another, workers], [1, 2, 1]);
  heard.length = 0;
  await assert.rejects(pool.submit(jobOf(Array(201).fill('a'))), { code: 'busy' });
  assert.deepEqual(heard, [], 'a job that is refused');
  const empty = jobOf([]);
  await pool.submit(empty);
  assert.deepEqual(heard, [['submitted', empty]]);
  await pool.close();
});

test('each job hears of its own rows where one task has those of several', async () => {
  /** @type {any[]} */
  const heard = [];
  /** @type {string[][]} */
  const tasks = [];
  const done = (/** @type {any} */ job, /** @type {any} */ rows) =>
    heard.push([job.texts, [...rows]]);
  const pool = await openPool([{ done }], tasks);
  // The first occupies the worker.
  const jobs = [['first'], ...Array.from({ length: 8 }, (_, i) => ['x'.repeat(i + 1)])].map(jobOf);
  await Promise.all(jobs.map((job) => pool.submit(job)));
  assert.ok(
    tasks.some((texts) => texts.length > 1),
    'none was gathered',
  );
  assert.deepEqual(heard, jobs.map(({ texts: [text] }) => [[text], [text.length]])); // prettier-ignore
  await pool.close();
});

test('hooks say how many tokens a task has, one after the other; other tasks stay as they are', async () => {
  /** @type {string[][]} */
  const tasks = [];
  /** @type {number[]} */
  const asked = [];
  const twice = {
    taken(/** @type {number} */ tokens) {
      asked.push(tokens);
      return 2 * tokens;
    },
  };
  const words = Array.from({ length: 150 }, () => 'one two three four five six');
  for (const [hooks, factor] of /** @type {[any[], number][]} */ ([
    [[], 1],
    [[twice, twice], 4],
  ])) {
    // prettier-ignore
    const pool = await openPool(hooks, tasks);
    tasks.length = 0;
    await pool.submit(jobOf(words));
    assert.equal(tasks[0].length, 32 * factor);
    await pool.submit(new OneTaskJob({ type: 'tokenize', text: 'a' }));
    await pool.close();
  }
  assert.deepEqual(asked.slice(0, 2), [256, 512]);
});
