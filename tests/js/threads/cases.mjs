// SPDX-License-Identifier: Apache-2.0
// The promises of the option threads, for Node and for pages: each case gets what it needs in an Env and throws
// if a promise is broken.
import { check, inTime, rejects } from '../pool/checks.mjs';
import { shortTexts } from '../pool/texts.mjs';

/** @typedef {import('../../../js/node.js').Embedder} Embedder */

/**
 * @typedef {object} Env
 * @property {typeof import('../../../js/node.js').Embedder} Embedder
 * @property {any} model of up to 256 tokens
 * @property {any} calibrated a small one with a predictor
 * @property {boolean} shared whether workers share memory
 * @property {() => any} makeWorker
 * @property {boolean} [makesThreads] whether makeWorker is called for each thread, too
 * @property {() => any} [makeKiller] makes a worker that ends a thread of its own when it is asked for rows. Pages
 *   have none: a page makes the threads of its workers, and can end them
 * @property {(worker: any) => void} killWorker from outside
 */

const LONG = 'water finds its own way down from any hill '.repeat(40);

/** Texts of all lengths, of which a thread takes a part (the first calls) or some (the last one). */
const CALLS = [
  ['a'],
  ['find the water'],
  ['some words '.repeat(9)],
  [LONG.slice(0, 1000)],
  [LONG],
  ['', 'one more'],
  [...shortTexts(150, 0), LONG, ...Array.from({ length: 20 }, (_, i) => LONG.slice(0, 80 * i))],
];

/** @param {Float32Array} rows */
const bits = (rows) => new Uint32Array(rows.buffer).join();

/** @param {Embedder} embedder */
async function rowsOf(embedder) {
  const all = [];
  for (const texts of CALLS) all.push(bits(await inTime(embedder.embed(texts), 60_000)));
  return all;
}

/** @param {Embedder} embedder @param {string[]} expected */
async function hasBits(embedder, expected) {
  const found = await rowsOf(embedder);
  found.forEach((each, i) => check(each === expected[i], `call ${i} has other bits`));
}

/** @type {WeakMap<object, string[]>} rows of pools without threads, by the class */
const plain = new WeakMap();

/** @param {Env} env */
async function plainRows({ Embedder, model }) {
  const known = plain.get(Embedder);
  if (known) return known;
  const embedder = await inTime(Embedder.load(model, { workers: 2 }));
  const rows = await rowsOf(embedder);
  plain.set(Embedder, rows);
  await inTime(embedder.close());
  return rows;
}

/**
 * @param {Env} env
 * @param {any} options
 * @param {(embedder: Embedder) => Promise<void>} body
 */
async function withThreads(env, options, body) {
  const embedder = await inTime(env.Embedder.load(env.model, { threads: 2, ...options }));
  try {
    await body(embedder);
  } finally {
    await inTime(embedder.destroy());
  }
}

/**
 * Terminates one of the workers that were made, while they compute.
 * @param {Env} env
 * @param {string} name of what is lost
 * @param {(made: any[]) => any} choose
 */
async function killOne(env, name, choose) {
  const expected = await plainRows(env);
  const made = /** @type {any[]} */ ([]);
  const worker = () => {
    made.push(env.makeWorker());
    return made[made.length - 1];
  };
  await withThreads(env, { workers: 1, worker }, async (embedder) => {
    const each = env.makesThreads ? 2 : 1;
    check(made.length === each, `${made.length} workers were made at first`);
    const call = embedder.embed(CALLS[6]);
    env.killWorker(choose(made));
    check(bits(await inTime(call, 60_000)) === expected[6], 'it has other bits');
    // Chromium lets a thread that computes go on for two seconds.
    for (const start = performance.now(); made.length === each;) {
      check(performance.now() - start < 30_000, 'it was not replaced');
      check(bits(await inTime(embedder.embed([LONG]))) === expected[4], 'a text has other bits');
    }
    check(made.length === 2 * each, `${made.length} workers were made`);
    check(embedder.stats().lostWorkers === 1, `no ${name} was lost`);
  });
}

/** @type {Record<string, (env: Env) => Promise<void>>} */
export const cases = {
  'rows have the same bits on 1, 2 and 3 threads, and in a pool of workers with threads': async (
    env,
  ) => {
    const expected = await plainRows(env);
    for (const options of [{ threads: 1 }, {}, { threads: 3 }, { workers: 2 }]) {
      await withThreads(env, options, async (embedder) => {
        const { threads = 2, workers = 1 } = /** @type {any} */ (options);
        const info = embedder.info();
        check(info.threads === (env.shared ? threads : 1), `${info.threads} threads`);
        if (env.shared && threads > 1) check(info.workers === workers, `${info.workers} workers`);
        await hasBits(embedder, expected);
      });
    }
  },

  'where workers share no memory a worker has one thread, and the reason says so': (env) =>
    withThreads(env, {}, async (embedder) => {
      const { threads, reasons } = embedder.info();
      check(env.shared === (threads === 2), `${threads} threads`);
      check(
        (env.shared ? /^asked for$/ : /not cross-origin isolated/).test(String(reasons.threads)),
        String(reasons.threads),
      );
    }),

  'auto: a thread for each core, at most 4': (env) =>
    withThreads(env, { threads: 'auto' }, async (embedder) => {
      const { threads = 0, reasons } = embedder.info();
      check(threads >= 1 && threads <= 4, `${threads} threads`);
      if (env.shared) check(/cores, at most 4/.test(String(reasons.threads)), `${reasons.threads}`);
    }),

  'on the calling thread there is one': (env) =>
    withThreads(env, { workers: 0 }, async (embedder) => {
      const { threads, workers, reasons } = embedder.info();
      check(threads === 1 && workers === 0, `${threads} threads, ${workers} workers`);
      check(/calling thread/.test(String(reasons.threads)), String(reasons.threads));
      check((await embedder.embed(['a', 'b'])).count === 2, 'no rows');
    }),

  'a call that is aborted in the middle of its text leaves the others their bits': async (env) => {
    const expected = await plainRows(env);
    await withThreads(env, { threads: 3 }, async (embedder) => {
      for (let ms = 0; ms < 12; ms += 3) {
        const signal = AbortSignal.timeout(ms);
        const outcome = await inTime(
          embedder.embed([LONG], { signal }).catch((/** @type {any} */ reason) => reason),
        );
        // Unless the machine was faster.
        check(outcome.count === 1 || outcome.name === 'TimeoutError', `${outcome}`);
        check(bits(await inTime(embedder.embed([LONG]))) === expected[4], `after ${ms} ms`);
      }
      const stop = new AbortController();
      const bulk = embedder.embed(CALLS[6], { signal: stop.signal });
      const single = embedder.embed([LONG]);
      stop.abort();
      await rejects(bulk, 'cancelled');
      check(bits(await inTime(single)) === expected[4], 'a single text has other bits');
      check(embedder.stats().lostWorkers === 0, 'a worker was lost');
    });
  },

  'single texts, of which many wait, are gathered and have their bits': async (env) => {
    const expected = await plainRows(env);
    await withThreads(env, {}, async (embedder) => {
      const rows = await inTime(Promise.all(CALLS[6].map((text) => embedder.embed(text))), 60_000);
      const all = new Float32Array(rows.flatMap((each) => [...each.values()]));
      check(bits(all) === expected[6], 'they have other bits');
    });
  },

  'close waits for the text that is computed, destroy does not': async (env) => {
    const expected = await plainRows(env);
    await withThreads(env, {}, async (embedder) => {
      const call = embedder.embed([LONG]);
      await inTime(embedder.close());
      check(bits(await inTime(call)) === expected[4], 'it has other bits');
      await rejects(embedder.embed(['a']), 'closed');
    });
    await withThreads(env, {}, async (embedder) => {
      const calls = [embedder.embed([LONG]), embedder.embed(CALLS[6])];
      const ends = calls.map((call) => rejects(call, 'closed', /destroyed/));
      await inTime(embedder.destroy());
      await Promise.all(ends);
    });
  },

  'setSparse opens the model again, with threads': async (env) => {
    /** @type {string[]} */
    const found = [];
    for (const threads of [undefined, 2]) {
      const embedder = await inTime(env.Embedder.load(env.calibrated, { workers: 1, threads }));
      for (const options of [{ predictor: 'dense' }, { sparsity: 0.5 }, { sparsity: 0.8 }]) {
        await inTime(embedder.setSparse(/** @type {any} */ (options)));
        found.push(bits(await inTime(embedder.embed([LONG.slice(0, 300), 'water', LONG]))));
      }
      await inTime(embedder.close());
    }
    const [dense, half, most, ...again] = found;
    check(dense !== half && half !== most, 'the sparsity changes nothing');
    check([dense, half, most].join() === again.join(), 'threads change bits');
  },

  'a worker that has nothing to do ends with its threads, and comes back': async (env) => {
    const expected = await plainRows(env);
    await withThreads(env, { idleTimeout: 1 }, async (embedder) => {
      for (let i = 0; i < 3; i++) {
        check(bits(await inTime(embedder.embed([LONG]))) === expected[4], `call ${i}`);
        for (let n = 0; embedder.stats().workers > 0; n++) {
          check(n < 1500, 'it did not end');
          await new Promise((done) => setTimeout(done, 10));
        }
      }
      check(embedder.stats().lostWorkers === 0, 'it counts as lost');
    });
  },

  'a thread that ends without a word ends its worker, whose text another computes': async (env) => {
    if (!env.makeKiller) return;
    const expected = await plainRows(env);
    const makers = [env.makeKiller];
    const worker = () => (makers.shift() ?? env.makeWorker)();
    await withThreads(env, { threads: 3, worker }, async (embedder) => {
      check(embedder.info().threads === 3, 'a thread is missing');
      check(bits(await inTime(embedder.embed([LONG]))) === expected[4], 'it has other bits');
      check(embedder.stats().lostWorkers === 1, `${embedder.stats().lostWorkers} were lost`);
      await hasBits(embedder, expected);
    });
  },

  'a worker that is terminated in the middle of a text is replaced': (env) =>
    killOne(env, 'worker', (made) => made[0]),

  'a thread that is terminated in the middle of a text is replaced with its worker': async (
    env,
  ) => {
    if (env.makesThreads) await killOne(env, 'thread', (made) => made[1]);
  },

  'wrong numbers of threads are refused': async (env) => {
    for (const threads of /** @type {any[]} */ ([0, 9, 1.5, -1, NaN, null, 'two', '2'])) {
      const error = await rejects(env.Embedder.load(env.model, { threads }), 'argument');
      check(error.field === 'threads', error.field);
    }
  },
};
