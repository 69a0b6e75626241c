// SPDX-License-Identifier: Apache-2.0
// The order in which the queue gives out work, tested without workers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { EmbedJob, OneTaskJob, gather } from '../../js/calls/job.js';
import { Queue } from '../../js/calls/queue.js';
import { estimateTokens } from '../../js/calls/job.js';

/** @param {string[]} texts */
const jobOf = (texts) => new EmbedJob(texts, { options: {}, dimensions: 1, maxTokens: 256 });

/** @param {number} count @param {number} words */
const texts = (count, words) =>
  Array.from({ length: count }, (_, i) => `${i}${' word'.repeat(words)}`);

/** @param {import('../../types/internal.js').Task | undefined} task @returns {string[]} */
const textsOf = (task) => /** @type {any} */ (task?.request.texts);

/** @param {string[]} chunk */
const tokensOf = (chunk) => chunk.reduce((sum, text) => sum + estimateTokens(text, 256), 0);

/** @param {Queue} queue @param {number} workers */
function drain(queue, workers) {
  const chunks = [];
  while (!queue.empty) chunks.push(textsOf(queue.next(workers)));
  return chunks;
}

test('every text is dealt once, the long ones first, in chunks that become smaller', () => {
  const queue = new Queue();
  const all = [...texts(300, 1), ...texts(40, 60), ...texts(5, 400)];
  queue.add(jobOf(all));
  const chunks = drain(queue, 4);
  assert.deepEqual(chunks.flat().sort(), [...all].sort());
  const lengths = chunks.flat().map((text) => estimateTokens(text, 256));
  lengths.reduce((last, length) => (assert.ok(length <= last), length));
  const sizes = chunks.map(tokensOf);
  assert.ok(sizes.every((size) => size <= 256));
  assert.ok(tokensOf(chunks[chunks.length - 2]) <= 64 && sizes[0] === 256);
  assert.ok(sizes.length < 60, `${sizes.length} chunks`);
});

test('a single worker gets whole chunks', () => {
  const queue = new Queue();
  queue.add(jobOf(texts(100, 2)));
  const sizes = drain(queue, 1).map(tokensOf);
  assert.ok(sizes.slice(0, -1).every((size) => size > 256 - 8));
});

test('single texts go first; bulk jobs take turns and never stand still', () => {
  const queue = new Queue();
  const [first, second] = [jobOf(texts(200, 5)), jobOf(texts(200, 5))];
  queue.add(first);
  queue.add(second);
  // Token ids are not gathered, so each is a task.
  for (let i = 0; i < 20; i++) queue.add(new OneTaskJob({ type: 'tokenize', text: `single ${i}` }));
  const jobs = Array.from({ length: 24 }, () => queue.next(2)?.job);
  const singles = jobs.map((job) => job !== first && job !== second);
  assert.deepEqual(
    singles.flatMap((single, i) => (single ? [] : [i])),
    [8, 17, 22, 23],
  );
  assert.deepEqual([jobs[8], jobs[17], jobs[22], jobs[23]], [first, second, first, second]);
});

test('single texts of many calls are gathered for all workers, and fewer towards the end', () => {
  const queue = new Queue();
  for (let i = 0; i < 60; i++) queue.add(jobOf([`single ${i}`]));
  const chunks = drain(queue, 2);
  assert.deepEqual(
    chunks.flat(),
    Array.from({ length: 60 }, (_, i) => `single ${i}`),
  );
  assert.deepEqual(
    chunks.slice(0, 4).map((chunk) => chunk.length),
    [15, 12, 9, 6],
  );
  assert.equal(chunks.at(-1)?.length, 1);
});

test('only calls with equal options are gathered, up to a chunk', () => {
  const queue = new Queue();
  const options = [{}, {}, { prompt: 'query: ' }, { prompt: 'query: ' }, {}, { dimensions: 2 }];
  for (let i = 0; i < 60; i++) {
    queue.add(new EmbedJob([`${i}`], { options: options[i] ?? {}, dimensions: 2, maxTokens: 256 }));
  }
  assert.deepEqual(drain(queue, 1).slice(0, 4), [['0', '1'], ['2', '3'], ['4'], ['5']]);
  for (let i = 0; i < 60; i++) queue.add(jobOf(texts(1, 100)));
  assert.ok(drain(queue, 1).every((chunk) => tokensOf(chunk) <= 256));
});

test('a gathered call that fails or is aborted leaves the others as they are', async () => {
  const abort = new AbortController();
  const jobs = [undefined, abort.signal, undefined].map(
    (each, i) =>
      new EmbedJob([`${i}`], {
        options: {},
        dimensions: 1,
        maxTokens: 9,
        signal: each,
        onProgress() {
          if (i === 2) throw new Error('of the callback');
        },
      }),
  );
  const task = gather(jobs);
  const ends = Promise.allSettled(jobs.map((job) => job.promise));
  abort.abort();
  assert.equal(task.job.settled, false);
  task.done(Float32Array.of(1, 2, 3));
  const [kept, aborted, failed] = /** @type {any[]} */ (await ends);
  assert.equal(kept.value[0], 1);
  assert.equal(aborted.reason.code, 'cancelled');
  assert.equal(failed.reason.message, 'of the callback');
  assert.ok(task.job.settled);
});

test('rows of another realm, such as that of Jest, are rows', async () => {
  const job = jobOf(['a']);
  job.take(256).done(runInNewContext('Float32Array.of(3)'));
  assert.deepEqual([...(await job.promise).values()], [3]);
});

test('submitting many long texts looks at few of them', () => {
  let looks = 0;
  const many = new Proxy(texts(50_000, 400), {
    get(target, name) {
      if (typeof name === 'string' && /^\d+$/.test(name)) looks++;
      return /** @type {any} */ (target)[name];
    },
  });
  const job = jobOf(many);
  assert.ok(looks < 200, `${looks} texts were estimated`);
  assert.equal(job.waiting, 50_000);
  assert.ok(Math.abs(job.tokensLeft / (50_000 * 256) - 1) < 0.01);
});

test('a removed job is dealt no more', () => {
  const queue = new Queue();
  const job = jobOf(texts(200, 5));
  queue.add(job);
  queue.next(2);
  assert.ok(queue.texts > 0);
  queue.remove(job);
  assert.equal(queue.texts, 0);
  assert.equal(queue.next(2), undefined);
});

test('estimates: words, punctuation, scripts without spaces, and a limit', () => {
  assert.equal(estimateTokens('', 256), 2);
  assert.equal(estimateTokens('one two, three', 256), 6);
  assert.equal(estimateTokens('水は低きに', 256), 7);
  assert.equal(estimateTokens('extraordinarily', 256), 5);
  assert.equal(estimateTokens('word '.repeat(1e6), 256), 256);
  assert.equal(estimateTokens(' '.repeat(1e6), 256), 2);
});
