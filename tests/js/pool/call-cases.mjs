// SPDX-License-Identifier: Apache-2.0
// Calls of an embedder beyond embed's rows: counts, priority, rows of a failed call, workers that rest.
import { check, inTime, pause, rejects, withEmbedder, works } from './checks.mjs';

/** @typedef {import('./checks.mjs').Env} Env */

/** @param {number} count */
const waters = (count) =>
  Array.from({ length: count }, (_, i) => `water ${'words '.repeat(30)} ${i}`);

/**
 * Waits for what comes at a time of its own.
 * @param {() => boolean} holds
 * @param {string} message
 */
async function becomes(holds, message) {
  for (let i = 0; !holds(); i++) {
    check(i < 1500, message);
    await pause(10);
  }
}

/** @type {Record<string, (env: Env) => Promise<void>>} */
export const callCases = {
  'tokens are counted before a text is truncated': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const { maxTokens } = embedder.info();
      const special = await inTime(embedder.countTokens(''));
      check(special === (await embedder.tokenize('')).length, 'special tokens are not counted');
      const texts = ['a', '', 'find the water', '\ud800', '\0', 'a '.repeat(maxTokens)];
      const counts = await inTime(embedder.countTokens(texts));
      check(Array.isArray(counts), 'not an array');
      for (const [i, text] of texts.entries()) {
        const { length } = await embedder.tokenize(text);
        check(length === Math.min(counts[i], maxTokens), `text ${i}: ${counts[i]}, ${length}`);
      }
      check(counts[5] === maxTokens + special, `${counts[5]} tokens`);
      check((await embedder.countTokens([])).length === 0, 'counts of no texts');
      for (const wrong of /** @type {any[]} */ ([undefined, null, 7, [1], new Array(2)])) {
        await rejects(embedder.countTokens(wrong), 'argument', /texts/);
      }
      for (const options of /** @type {any[]} */ ([null, 7, { prompt: 'x' }, { priority: 1 }])) {
        await rejects(embedder.countTokens('a', options), 'argument');
      }
      const signal = AbortSignal.abort();
      await rejects(embedder.countTokens('a', { signal }), 'cancelled');
      // Rows and counts are not gathered in one task.
      const [row, count] = await inTime(
        Promise.all([embedder.embed('water'), embedder.countTokens('water'), embedder.embed('a')]),
      );
      check(row.count === 1 && count === (await embedder.tokenize('water')).length, 'mixed up');
      await embedder.close();
      await rejects(embedder.countTokens('a'), 'closed');
    }),

  'a call of high priority overtakes one of low priority, however many texts they have': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      /** @type {string[]} */
      const order = [];
      const calls = [
        embedder.embed(['FAULT slow 100']),
        embedder.embed(waters(40)).then(() => order.push('bulk')),
        embedder.embed(['single, low'], { priority: 'low' }).then(() => order.push('single, low')),
        embedder.embed(['a', 'b'], { priority: 'high' }).then(() => order.push('two, high')),
        embedder.embed(['single']).then(() => order.push('single')),
      ];
      await inTime(Promise.all(calls));
      check(String(order.slice(0, 2).sort()) === 'single,two, high', order.join('; '));
      for (const priority of /** @type {any[]} */ (['urgent', 1, null, Symbol('s')])) {
        await rejects(embedder.embed(['a'], { priority }), 'argument', /priority/);
      }
      await works(embedder);
    }),

  'a call of high priority with many texts leaves some turns to others': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      let highDone = false;
      const low = embedder.embed(['FAULT slow 50', 'a', 'b'], { priority: 'low' });
      const high = embedder.embed(waters(400), { priority: 'high' }).then(() => (highDone = true));
      await inTime(low);
      check(!highDone, 'three texts waited for all of 400');
      await inTime(high);
    }),

  'what an aborted or failed call has computed is in its error': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const texts = waters(200);
      const expected = await inTime(embedder.embed(texts));
      const abort = new AbortController();
      const aborted = await rejects(
        embedder.embed(texts, {
          signal: abort.signal,
          onProgress: ({ done }) => done > 20 && abort.abort(),
        }),
        'cancelled',
      );
      const failed = await rejects(embedder.embed([...texts, 'FAULT exit']), 'worker');
      for (const { rows, finished } of [aborted, failed]) {
        check(finished.length > 0 && finished.length < texts.length + 1, `${finished.length} rows`);
        check(rows.count >= texts.length, `room for ${rows.count} rows`);
        finished.forEach((/** @type {number} */ i, /** @type {number} */ at) => {
          check(at === 0 || finished[at - 1] < i, 'not in order');
          const row = rows.row(i);
          check(
            expected.row(i).every((value, j) => value === row[j]),
            `row ${i} is another`,
          );
        });
      }
      const none = await rejects(embedder.embed(['a'], { signal: abort.signal }), 'cancelled');
      check(none.rows === undefined && none.finished === undefined, 'rows of nothing');
      // Each of two calls that fail for one reason has its own rows.
      const errors = /** @type {any[]} */ ([]);
      const calls = [texts, waters(150)].map((each) =>
        embedder
          .embed(['FAULT slow 20', ...each], {
            onProgress: ({ done }) => done > 10 && void embedder.destroy(),
          })
          .catch((error) => errors.push(error)),
      );
      await inTime(Promise.all(calls));
      const counts = errors.map(({ rows }) => rows?.count).filter((count) => count !== undefined);
      check(new Set(counts).size === counts.length && counts.length > 0, String(counts));
    }),

  'idle workers end, come back by themselves, and nothing is lost': (env) =>
    withEmbedder(env, { workers: 3, idleTimeout: 40 }, async (embedder, { made }) => {
      const texts = waters(60);
      const rest = () => becomes(() => embedder.stats().workers === 0, 'workers do not end');
      const rows = await inTime(embedder.embed(texts));
      await rest();
      const before = embedder.stats();
      check(before.texts === 60 && before.memoryBytes === 0, `${before.memoryBytes} bytes`);
      check(before.lostWorkers === 0, 'they count as lost');
      const started = made.length;
      await inTime(embedder.embed('single'));
      check(made.length === started + 1, `${made.length - started} workers for one text`);
      await rest();
      const again = await inTime(embedder.embed(texts));
      check(
        again.every((value, i) => value === rows[i]),
        'rows differ',
      );
      check(made.length === started + 4, `${made.length} workers were made`);
      await rest();
      check((await embedder.tokenize('a')).length > 0, 'no tokens');
      await rest();
      check(embedder.stats().texts === 121, `${embedder.stats().texts} texts`);
      check(embedder.info().workers === 3, 'info is of now');
      await inTime(embedder.setSparse({ predictor: 'dense' }));
      check(embedder.info().predictor === 'dense', embedder.info().predictor);
      await rest();
      await works(embedder);
      await rest();
      await inTime(embedder.close());
      await rejects(embedder.embed('a'), 'closed');
    }),

  'workers that rest and do not start again fail the calls that wait; later calls try again': (
    env,
  ) =>
    withEmbedder(env, { workers: 2, idleTimeout: 20 }, async (embedder, workers) => {
      await becomes(() => embedder.stats().workers === 0, 'workers do not end');
      workers.queryOf = () => 'boot=throw';
      await rejects(embedder.embed(['a']), 'worker', /starting/);
      workers.queryOf = () => '';
      await works(embedder);
    }),

  'options of other types and sizes are named': async (env) => {
    for (const [name, ...values] of /** @type {[string, ...any[]][]} */ ([
      ['queueLimit', NaN, -1, '3', null],
      ['startTimeout', NaN, -1, '9', 1n],
      ['workers', 1e9, 1n, '2', {}, Symbol('w')],
      ['compute', 1n, {}],
      ['kernels', Symbol('k'), 7],
      ['predictor', [], null],
    ])) {
      for (const value of values) {
        const load = env.Embedder.load(env.model, { [name]: value });
        const { field } = await rejects(load, 'argument', RegExp(`^${name}: `));
        check(field === name, `${field} and not ${name}`);
      }
    }
    await withEmbedder(env, {}, async (embedder) => {
      const dimensions = /** @type {any} */ (1n);
      await rejects(
        embedder.embed('a', { dimensions }),
        'argument',
        /^dimensions: bigint 1 is not/,
      );
      // C would take what stands before it.
      const { field } = await rejects(embedder.embed('a', { prompt: 'a \0b' }), 'argument', /NUL/);
      check(field === 'prompt', field);
      for (const prompt of /** @type {any[]} */ ([null, 7]))
        await rejects(embedder.embed('a', { prompt }), 'argument', /^prompt: .* is not a string/);
      for (const predictor of /** @type {any[]} */ ([1n, Symbol('p'), null]))
        await rejects(
          embedder.setSparse({ predictor }),
          'argument',
          /^predictor: .* is not a string/,
        );
      await works(embedder);
    });
  },

  'an idle time that is shorter than loading, and none': async (env) => {
    for (const idleTimeout of [0, 2 ** 40, Infinity]) {
      await withEmbedder(env, { workers: 2, idleTimeout }, async (embedder) => {
        await works(embedder);
        await pause(30);
        if (idleTimeout > 0) check(embedder.stats().workers === 2, 'workers ended');
        await works(embedder);
      });
    }
    for (const idleTimeout of /** @type {any[]} */ ([-1, NaN, '9', null])) {
      await rejects(env.Embedder.load(env.model, { idleTimeout }), 'argument', /idleTimeout/);
    }
    // setTimeout takes a time that is too long for none.
    for (const startTimeout of [2 ** 40, Infinity])
      await withEmbedder(env, { workers: 1, startTimeout }, works);
    const local = await env.Embedder.load(env.model, { workers: 0, idleTimeout: 5 });
    await becomes(() => local.stats().workers === 0, 'the engine of this thread stays');
    await works(local);
    await local.close();
  },
};
