// SPDX-License-Identifier: Apache-2.0
// The promises of a pool when things go wrong, for Node and for pages: each case gets what it needs
// in an Env and throws if a promise is broken.

import { check, factory, inTime, pause, rejects, withEmbedder, works } from './checks.mjs';
import { callCases } from './call-cases.mjs';
import { sparseCases } from './sparse-cases.mjs';

/** @typedef {import('./checks.mjs').Env} Env */

/**
 * A text that ends each worker that it is given to: its call fails after the third one, other calls
 * succeed, and each worker is replaced.
 * @param {string} text
 * @param {string} code
 * @param {RegExp} message
 */
function lost(text, code, message) {
  return (/** @type {Env} */ env) =>
    withEmbedder(env, { workers: 2 }, async (embedder, { made }) => {
      const other = embedder.embed(['FAULT slow 50']);
      await rejects(embedder.embed([text]), code, message);
      await inTime(other);
      await works(embedder);
      check(made.length === 5, `${made.length} workers were made`);
      check(embedder.stats().lostWorkers === 3, 'the workers do not count as lost');
    });
}

/**
 * A worker that does not start: load fails, and starts no further worker.
 * @param {string} query
 * @param {any} [options]
 */
function bootFails(query, options) {
  return async (/** @type {Env} */ env) => {
    const workers = factory(env);
    workers.queryOf = () => query;
    const worker = () => workers.make();
    await rejects(env.Embedder.load(env.model, { workers: 2, worker, ...options }), 'worker');
    await pause(200);
    check(workers.made.length === 2, `${workers.made.length} workers were made`);
  };
}

/** @type {Record<string, (env: Env) => Promise<void>>} */
export const cases = {
  ...sparseCases,
  ...callCases,

  'a worker throws at work': lost('FAULT throw', 'worker', /thrown at work/),
  'a worker throws in a later task': lost('FAULT later', 'worker', /thrown later/),
  'the module traps': lost('FAULT trap', 'trap', /unreachable/),
  'a worker exits at work': lost('FAULT exit', 'worker', /ended/),
  'a worker sends a reply nobody asked for': lost('FAULT garbage', 'worker', /nobody asked/),

  'a reply that is not one fails its call': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      await rejects(embedder.embed(['FAULT wrongRows']), 'worker', /not the rows/);
      await rejects(embedder.embed(['FAULT fewRows', 'b']), 'worker', /not the rows/);
      await works(embedder);
    }),

  'a worker exits while it is idle': (env) =>
    withEmbedder(env, {}, async (embedder, { made }) => {
      await inTime(embedder.embed(['FAULT exitAfter']));
      await pause(300);
      check(made.length === 1, 'it was replaced though nobody needed it');
      await works(embedder);
      check(made.length === 2, `${made.length} workers were made`);
    }),

  'a worker is terminated at work': (env) =>
    withEmbedder(env, {}, async (embedder, { made }) => {
      const call = embedder.embed(['FAULT slow 2000']);
      await pause(50);
      env.killWorker(made[0]);
      check((await inTime(call)).count === 1, 'no other worker got the text');
      check(made.length === 2, `${made.length} workers were made`);
      await works(embedder);
    }),

  'bulk work goes on where a worker ends, with the same rows': (env) =>
    withEmbedder(env, { workers: 2 }, async (embedder, { made }) => {
      const texts = ['FAULT slow 300', ...Array.from({ length: 300 }, (_, i) => `water ${i}`)];
      const expected = await inTime(embedder.embed(texts));
      let last = 0;
      const onProgress = (/** @type {{ done: number }} */ { done }) => {
        check(done > last, 'rows were given up');
        last = done;
      };
      const call = embedder.embed(texts, { onProgress });
      await pause(50);
      env.killWorker(made[0]);
      env.killWorker(made[1]);
      const rows = await inTime(call);
      check(
        rows.every((value, i) => value === expected[i]),
        'rows differ',
      );
      check(last === 301 && embedder.stats().lostWorkers === 2, 'the workers were not lost');
    }),

  'a text that ends workers costs others of its turn nothing': (env) =>
    withEmbedder(env, {}, async (embedder, { made }) => {
      const calls = Array.from({ length: 20 }, (_, i) =>
        embedder.embed(i === 4 ? ['FAULT exit'] : [`water ${i}`]),
      );
      const ends = await inTime(Promise.allSettled(calls));
      const failed = ends.flatMap(({ status }, i) => (status === 'rejected' ? [i] : []));
      check(String(failed) === '4', `failed: ${failed}`);
      check(made.length === 4, `${made.length} workers were made`);
    }),

  'a text that was lost is computed by the options of its call': async (env) => {
    const calibrated = { ...env, model: env.calibrated };
    await withEmbedder(calibrated, {}, async (embedder, { made }) => {
      const expected = await inTime(embedder.embed(['FAULT slow 300']));
      const call = embedder.embed(['FAULT slow 300']);
      const change = embedder.setSparse({ sparsity: 0.8 });
      const after = embedder.embed(['FAULT slow 300']);
      await pause(50);
      env.killWorker(made[0]);
      const rows = await inTime(call);
      check(
        rows.every((value, i) => value === expected[i]),
        'the later options were in force',
      );
      await inTime(change);
      check(
        (await inTime(after)).some((value, i) => value !== expected[i]),
        'the change was lost',
      );
    });
  },

  'a worker is terminated while it is idle': (env) =>
    withEmbedder(env, {}, async (embedder, { made }) => {
      await works(embedder);
      env.killWorker(made[0]);
      await pause(100);
      await works(embedder);
    }),

  'a worker is terminated while it starts': async (env) => {
    const workers = factory(env);
    const worker = () => {
      const made = workers.make();
      setTimeout(() => env.killWorker(made), 0);
      return made;
    };
    const options = { workers: 1, worker, startTimeout: 1000 };
    await rejects(env.Embedder.load(env.model, options), 'worker');
    check(workers.made.length === 1, 'it was replaced');
  },

  'a message cannot be read': (env) =>
    withEmbedder(env, {}, async (embedder, { made }) => {
      const call = embedder.embed(['FAULT slow 300']);
      await pause(30);
      env.failMessage(made[0]);
      await inTime(call);
      check(made.length === 2, `${made.length} workers were made`);
      await works(embedder);
    }),

  'workers throw while they start': bootFails('boot=throw'),
  'workers exit while they start': bootFails('boot=exit', { startTimeout: 1000 }),
  "a worker's script is not there": (env) =>
    rejects(env.Embedder.load(env.model, { worker: env.missingScript }), 'worker'),
  'a worker that is none': async (env) => {
    for (const worker of /** @type {any[]} */ ([null, '', 0, false]))
      await rejects(env.Embedder.load(env.model, { worker }), 'argument', /^worker/);
  },
  'a module that is not an engine': async (env) => {
    const empty = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
    await rejects(env.Embedder.load(env.model, { workers: 2, wasm: empty }), 'worker');
  },
  'a model that is none': async (env) => {
    const bytes = new TextEncoder().encode('<!doctype html><p>Not found');
    await rejects(env.Embedder.load(bytes, { workers: 2 }), 'format');
    await rejects(env.Embedder.load(bytes, { workers: 0 }), 'format');
    await rejects(env.Embedder.load(new Uint8Array(0)), 'format');
  },
  'a source of the wrong type': async (env) => {
    for (const source of [null, 7, {}, () => {}]) {
      await rejects(env.Embedder.load(/** @type {any} */ (source)), 'argument', /source/);
    }
    const first = /** @type {any} */ ({ workers: 2 });
    await rejects(env.Embedder.load(first), 'argument', /load\(undefined, \{ workers \}\)/);
  },
  'options of another type reach no worker': (env) =>
    rejects(
      env.Embedder.load(env.model, { workers: 1, portable: /** @type {any} */ (() => {}) }),
      'argument',
      /portable: an object is not true or false/,
    ),

  'one worker of several does not start: none stays': async (env) => {
    const workers = factory(env);
    workers.queryOf = (n) => (n === 2 ? 'boot=throw' : '');
    const worker = () => workers.make();
    await rejects(env.Embedder.load(env.model, { workers: 3, worker }), 'worker', /starting/);
    check(workers.made.length === 3, `${workers.made.length} workers were made`);
  },

  'a replacement that does not start fails the calls that wait, and only they try again': (env) =>
    withEmbedder(env, {}, async (embedder, workers) => {
      workers.queryOf = () => 'boot=throw';
      const waiting = embedder.embed(['FAULT slow 50']);
      const behind = rejects(embedder.embed(['FAULT exit']), 'worker', /starting/);
      const last = rejects(embedder.embed(['a', 'b']), 'worker', /starting/);
      await inTime(waiting);
      await behind;
      await last;
      await pause(200);
      check(workers.made.length === 2, `${workers.made.length} workers were made`);
      await rejects(embedder.embed(['a']), 'worker', /starting/);
      await rejects(embedder.embed(['a']), 'worker', /starting/);
      check(workers.made.length === 4, `${workers.made.length} workers were made`);
      workers.queryOf = () => '';
      await works(embedder);
    }),

  'memory cannot grow: an error, and the worker stays': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      await rejects(embedder.embed([`FAULT grow ${'words '.repeat(500)}`]), 'memory');
      await works(embedder);
      check(embedder.stats().lostWorkers === 0, 'the worker was lost');
    }),

  'aborted before the call': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const signal = AbortSignal.abort(new Error('no more'));
      const error = await rejects(embedder.embed(['a'], { signal }), 'cancelled');
      check(error.cause.message === 'no more', 'the reason is lost');
      await rejects(embedder.tokenize('a', { signal }), 'cancelled');
      await rejects(env.Embedder.load(env.model, { signal }), 'cancelled');
      check(embedder.stats().texts === 0, 'it was computed all the same');
    }),

  'aborted in the queue': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const abort = new AbortController();
      const before = embedder.embed(['FAULT slow 300']);
      const queued = embedder.embed(['a', 'b'], { signal: abort.signal });
      const after = embedder.embed(['a', 'b']);
      setTimeout(() => abort.abort(), 20);
      let first = '';
      before.then(() => (first ||= 'the worker'));
      await rejects(queued, 'cancelled');
      first ||= 'abort';
      check(first === 'abort', `${first} was first`);
      await inTime(before);
      await inTime(after);
      check(embedder.stats().texts === 3, 'what was aborted was computed');
    }),

  'aborted while it runs': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const abort = new AbortController();
      const running = embedder.embed(['FAULT slow 400'], { signal: abort.signal });
      const start = performance.now();
      setTimeout(() => abort.abort(), 20);
      await rejects(running, 'cancelled');
      const rejected = performance.now() - start;
      await works(embedder);
      check(rejected < performance.now() - start, 'abort waited for the worker');
      check(embedder.stats().lostWorkers === 0, 'the worker was lost');
    }),

  'aborted after it is done': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const abort = new AbortController();
      const rows = await inTime(embedder.embed(['a'], { signal: abort.signal }));
      abort.abort();
      check(rows.count === 1, 'no row');
      await works(embedder);
    }),

  'a worker that stays with an aborted call is replaced': (env) =>
    withEmbedder(env, {}, async (embedder, { made }) => {
      const abort = new AbortController();
      const stuck = embedder.embed(['FAULT forever'], { signal: abort.signal });
      setTimeout(() => abort.abort(), 20);
      await rejects(stuck, 'cancelled');
      await works(embedder);
      check(made.length === 2, `${made.length} workers were made`);
    }),

  'a full queue refuses': (env) =>
    withEmbedder(env, { queueLimit: 3 }, async (embedder) => {
      const calls = [embedder.embed(['FAULT slow 200']), embedder.embed(['a', 'b', 'c'])];
      await rejects(embedder.embed(['d']), 'busy', /queueLimit 3/);
      await inTime(Promise.all(calls));
      await works(embedder);
    }),

  'close drains, then refuses; twice is fine': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const calls = [embedder.embed(['FAULT slow 100']), embedder.embed(['a', 'b', 'c'])];
      const closing = embedder.close();
      await rejects(embedder.embed(['d']), 'closed');
      await rejects(embedder.embed([]), 'closed');
      await rejects(embedder.tokenize('d'), 'closed');
      await inTime(Promise.all([closing, embedder.close(), embedder.close()]));
      const [one, three] = await inTime(Promise.all(calls));
      check(one.count === 1 && three.count === 3, 'rows are missing');
      await inTime(embedder.destroy());
    }),

  'destroy rejects, whatever a worker does; twice is fine': (env) =>
    withEmbedder(env, { workers: 2 }, async (embedder) => {
      const stuck = rejects(embedder.embed(['FAULT forever']), 'closed', /destroyed/);
      const waiting = rejects(embedder.embed(['a', 'b']), 'closed', /destroyed/);
      await inTime(Promise.all([embedder.destroy(), embedder.destroy(), embedder.close()]));
      await stuck;
      await waiting;
      await rejects(embedder.embed(['a']), 'closed');
    }),

  'destroy ends a close that waits': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const stuck = rejects(embedder.embed(['FAULT forever']), 'closed');
      const closing = embedder.close();
      await pause(20);
      await inTime(embedder.destroy());
      await inTime(closing);
      await stuck;
    }),

  'a worker that ends while close waits': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const lostCall = rejects(embedder.embed(['FAULT exit']), 'worker');
      const after = embedder.embed(['a', 'b']);
      await inTime(embedder.close());
      await lostCall;
      check((await after).count === 2, 'what waited was not computed');
    }),

  'a progress callback that throws fails its own call': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const onProgress = () => {
        throw new Error('of the callback');
      };
      const error = await embedder.embed(['a'], { onProgress }).catch((reason) => reason);
      check(error.message === 'of the callback', String(error));
      await works(embedder);
    }),

  'wrong arguments are refused before any work': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      const wrong = /** @type {any} */ ([undefined, null, 7, {}, [1], new Array(2), [Symbol('s')]]);
      for (const texts of wrong) await rejects(embedder.embed(texts), 'argument', /texts/);
      for (const dimensions of /** @type {any} */ ([0, -1, 1.5, 1e9, NaN, '3'])) {
        await rejects(embedder.embed(['a'], { dimensions }), 'argument', /dimensions/);
      }
      await rejects(embedder.embed(['a'], { prompt: /** @type {any} */ (3) }), 'argument');
      await rejects(embedder.tokenize(/** @type {any} */ (undefined)), 'argument');
      for (const options of /** @type {any[]} */ ([null, 7, { promt: 'x' }, { signal: 1 }])) {
        await rejects(embedder.embed(['a'], options), 'argument');
        await rejects(embedder.tokenize('a', options), 'argument');
        await rejects(embedder.setSparse(options), 'argument');
        await rejects(env.Embedder.load(env.model, options), 'argument');
      }
      await rejects(embedder.embed(['a'], { prompt: 'qurey' }), 'not_found', /no prompt 'qurey'/);
      const long = await rejects(embedder.embed(['a'], { prompt: 'q'.repeat(1e6) }), 'not_found');
      check(long.message.length < 400, `a message of ${long.message.length} characters`);
      for (const workers of /** @type {any} */ ([-1, 1.5, NaN, '2'])) {
        await rejects(env.Embedder.load(env.model, { workers }), 'argument', /workers/);
      }
      check((await embedder.embed([])).length === 0, 'rows of no texts');
      await works(embedder);
    }),

  "a caller's buffers stay his own": async (env) => {
    const bytes = new Uint8Array(await (await asBlob(env.model)).arrayBuffer());
    const embedder = await env.Embedder.load(bytes.buffer, { workers: 1 });
    try {
      check(bytes.length > 0, 'the buffer was taken');
      bytes.fill(0);
      await works(embedder);
    } finally {
      await embedder.close();
    }
    structuredClone(bytes, { transfer: [bytes.buffer] });
    await rejects(env.Embedder.load(bytes), 'argument', /detached/);
  },

  'what onProgress throws while loading is passed on unchanged': async (env) => {
    for (const phase of ['model', 'workers']) {
      const error = new TypeError('of the callback');
      const onProgress = (/** @type {any} */ progress) => {
        if (progress.phase === phase) throw error;
      };
      const loading = env.Embedder.load(env.model, { workers: 2, onProgress });
      check((await inTime(loading.catch((reason) => reason))) === error, `it was not, ${phase}`);
    }
  },

  'the name of what an aborted call rejects with is that of the reason': async (env) => {
    const signal = AbortSignal.abort();
    const aborted = await rejects(env.Embedder.load(env.model, { signal }), 'cancelled');
    check(aborted.name === 'AbortError', aborted.name);
    const late = AbortSignal.abort(new DOMException('late', 'TimeoutError'));
    const timedOut = await rejects(env.Embedder.load(env.model, { signal: late }), 'cancelled');
    check(timedOut.name === 'TimeoutError', timedOut.name);
  },

  'loading is aborted': async (env) => {
    for (const phase of ['model', 'workers']) {
      const abort = new AbortController();
      const loading = env.Embedder.load(env.model, {
        workers: 2,
        signal: abort.signal,
        onProgress: (progress) => progress.phase === phase && abort.abort(),
      });
      await rejects(loading, 'cancelled');
    }
  },

  'single texts overtake bulk work, which goes on': (env) =>
    withEmbedder(env, {}, async (embedder) => {
      let bulkDone = false;
      // With threads a task has 2,048 tokens.
      const texts = Array.from({ length: 1000 }, (_, i) => `water ${'words '.repeat(30)} ${i}`);
      const bulk = embedder.embed(['FAULT slow 50', ...texts]).then(() => (bulkDone = true));
      for (let i = 0; i < 10; i++) await inTime(embedder.embed([`single ${i}`]));
      check(!bulkDone, 'ten single texts waited for all of 1001');
      await inTime(bulk);
    }),
};

/** @param {any} model */
const asBlob = async (model) => (model instanceof Blob ? model : (await fetch(model)).blob());
