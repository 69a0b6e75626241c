// SPDX-License-Identifier: Apache-2.0
// Sparse layers of a pool, in Node and in pages: changes come in order, apply to all workers, and give
// what loading with them gives.
import { check, inTime, rejects, withEmbedder, works } from './checks.mjs';
import { shortTexts } from './texts.mjs';

/** @typedef {import('./checks.mjs').Env} Env */

/** Several chunks for each of a few workers. */
const TEXTS = shortTexts(400, 0);

/** Another one each time, and each way from one predictor to another. */
const SETTINGS = /** @type {import('../../../js/base/options.js').SparseOptions[]} */ ([
  { sparsity: 0.8 },
  { sparsity: 0.4 },
  { predictor: 'exact' },
  { predictor: 'lowrank' },
  { predictor: 'sentence', sparsity: 0.8 },
  { predictor: 'sentence' },
  { predictor: 'dense' },
  {},
  { predictor: 'lowrank', sparsity: 0.8 },
]);

/**
 * Rows of a fresh embedder, on the calling thread.
 * @param {Env} env
 * @param {object} options
 */
async function freshRows(env, options) {
  const embedder = await env.Embedder.load(env.calibrated, { workers: 0, ...options });
  const rows = await embedder.embed(TEXTS);
  await embedder.close();
  return rows;
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
const same = (a, b) => a.length === b.length && Array.prototype.every.call(a, (x, i) => x === b[i]);

/** @param {number} workers */
function inOrder(workers) {
  return async (/** @type {Env} */ env) => {
    const expected = /** @type {Float32Array[]} */ ([]);
    for (const setting of SETTINGS) expected.push(await freshRows(env, setting));
    expected.forEach((rows, i) => {
      const twin = i === SETTINGS.length - 1 ? 0 : i;
      const equal = expected.findIndex((other) => same(other, rows));
      // The model and this machine decide what {} becomes.
      check(equal === twin || i === 7, `setting ${i} gives what setting ${equal} gives`);
    });
    const calibrated = { ...env, model: env.calibrated };
    await withEmbedder(calibrated, { workers }, async (embedder, { made }) => {
      // Nothing is awaited: calls and changes stand in the queue together.
      const calls = SETTINGS.map((setting) => {
        const change = embedder.setSparse(setting);
        return { change, bulk: embedder.embed(TEXTS), single: embedder.embed(TEXTS[7]) };
      });
      for (const [i, { change, bulk, single }] of calls.entries()) {
        await inTime(change);
        const rows = await inTime(bulk);
        check(same(rows, expected[i]), `setting ${i} was not in force for all of a call`);
        check(same(await inTime(single), rows.row(7)), `setting ${i}: a single text differs`);
      }
      const { predictor, sparsity } = embedder.info();
      check(predictor === 'lowrank' && sparsity === 0.8, `${predictor} ${sparsity}`);
      check(embedder.stats().texts === SETTINGS.length * (TEXTS.length + 1), 'texts were lost');
      check(made.length === workers, `${made.length} workers were made`);
    });
  };
}

/** @type {Record<string, (env: Env) => Promise<void>>} */
export const sparseCases = {
  '1 worker changes its sparse layers in order': inOrder(1),
  '4 workers change their sparse layers in order': inOrder(4),

  'what sparse layers cannot be is refused, and nothing changes': async (env) => {
    /** @param {any} model @param {any} options @param {string} code @param {string} field
     *  @param {RegExp} message */
    async function refused(model, options, code, field, message) {
      const loading = env.Embedder.load(model, { workers: 2, ...options });
      check((await rejects(loading, code, message)).field === field, `not of ${field}`);
      await withEmbedder({ ...env, model }, { workers: 2 }, async (embedder) => {
        const before = await inTime(embedder.embed(TEXTS));
        const changing = rejects(embedder.setSparse(options), code, message);
        const behind = embedder.embed(TEXTS);
        check((await changing).field === field, `not of ${field}`);
        check(same(await inTime(behind), before), 'what came after it was computed another way');
        check(embedder.stats().lostWorkers === 0, 'a worker was lost');
      });
    }
    const { model, calibrated } = env;
    await refused(calibrated, { sparsity: 1.5 }, 'argument', 'sparsity', /1\.5 is not from 0/);
    await refused(calibrated, { sparsity: -1 }, 'argument', 'sparsity', /-1 is not from 0/);
    await refused(calibrated, { sparsity: NaN }, 'argument', 'sparsity', /nan is not from 0/);
    for (const sparsity of ['1', null, Symbol('s'), () => {}])
      await refused(calibrated, { sparsity }, 'argument', 'sparsity', /not a number/);
    const dense = { predictor: 'dense', sparsity: 0.5 };
    await refused(calibrated, dense, 'argument', 'sparsity', /does not skip a share/);
    await refused(calibrated, { predictor: 'best' }, 'argument', 'predictor', /'best'/);
    await refused(calibrated, { predictor: 'toString' }, 'argument', 'predictor', /toString/);
    await refused(model, { predictor: 'lowrank' }, 'not_found', 'wisp.sparse.shares', /calibrate/);
    const texts = { predictor: 'sentence' };
    const tensor = 'blk.0.ffn_sentence_p.weight';
    await refused(model, texts, 'not_found', tensor, /calibrate --sentence/);
    await refused(model, { sparsity: 0.5 }, 'not_found', 'wisp.sparse.shares', /calibrate/);
    const f32 = /** @type {const} */ ({ compute: 'f32', predictor: 'exact' });
    await rejects(env.Embedder.load(calibrated, f32), 'unsupported', /int8/);
  },

  'a replaced worker has the changed sparse layers': async (env) => {
    const expected = await freshRows(env, { sparsity: 0.8 });
    await withEmbedder({ ...env, model: env.calibrated }, {}, async (embedder, { made }) => {
      await inTime(embedder.setSparse({ sparsity: 0.8 }));
      await rejects(embedder.embed(['FAULT exit']), 'worker');
      check(same(await inTime(embedder.embed(TEXTS)), expected), 'it runs by something else');
      check(made.length === 4, `${made.length} workers were made`);
    });
  },

  'a worker ends while it changes sparse layers': async (env) => {
    const expected = await freshRows(env, {});
    await withEmbedder({ ...env, model: env.calibrated }, {}, async (embedder) => {
      await inTime(embedder.embed(['FAULT sparse exit']));
      const changing = rejects(embedder.setSparse({ sparsity: 0.8 }), 'worker', /ended/);
      const behind = embedder.embed(TEXTS);
      await changing;
      check(same(await inTime(behind), expected), 'what came after it was computed another way');
    });
  },

  'a worker ends while it changes sparse layers, and no other starts: the rest goes on': async (
    env,
  ) => {
    const calibrated = { ...env, model: env.calibrated };
    await withEmbedder(calibrated, { workers: 2 }, async (embedder, workers) => {
      const fault = () => inTime(embedder.embed(['FAULT sparse exit']));
      await Promise.all([fault(), fault()]);
      workers.queryOf = () => 'boot=throw';
      const changing = rejects(embedder.setSparse({ sparsity: 0.8 }), 'worker', /ended/);
      const behind = embedder.embed(['a', 'b']);
      await changing;
      check((await inTime(behind)).count === 2, 'rows are missing');
    });
  },

  'a worker that cannot follow a change is dropped': async (env) => {
    const expected = await freshRows(env, { sparsity: 0.8 });
    const options = { workers: 2 };
    await withEmbedder({ ...env, model: env.calibrated }, options, async (embedder, { made }) => {
      // The first worker is busy, so that the second one gets this.
      const busy = embedder.embed(['FAULT slow 100']);
      await inTime(embedder.embed(['FAULT sparse refuse']));
      await inTime(busy);
      await inTime(embedder.setSparse({ sparsity: 0.8 }));
      check(same(await inTime(embedder.embed(TEXTS)), expected), 'a worker runs as before');
      await works(embedder);
      check(embedder.stats().lostWorkers === 1 && made.length === 3, `${made.length} workers made`);
    });
  },

  'a change the first worker has no memory for changes nothing': async (env) => {
    const expected = await freshRows(env, {});
    const options = { workers: 2 };
    await withEmbedder({ ...env, model: env.calibrated }, options, async (embedder, { made }) => {
      await inTime(embedder.embed(['FAULT sparse refuse']));
      await rejects(embedder.setSparse({ sparsity: 0.8 }), 'memory');
      check(same(await inTime(embedder.embed(TEXTS)), expected), 'a worker has changed');
      check(made.length === 2, `${made.length} workers were made`);
    });
  },

  'close waits for a change, destroy does not': async (env) => {
    await withEmbedder({ ...env, model: env.calibrated }, {}, async (embedder) => {
      const changing = embedder.setSparse({ predictor: 'exact' });
      const closing = embedder.close();
      await rejects(embedder.setSparse({}), 'closed');
      await inTime(Promise.all([changing, closing]));
    });
    await withEmbedder({ ...env, model: env.calibrated }, {}, async (embedder) => {
      const stuck = rejects(embedder.embed(['FAULT forever']), 'closed');
      const changing = rejects(embedder.setSparse({ sparsity: 0.8 }), 'closed', /destroyed/);
      const behind = rejects(embedder.embed(TEXTS), 'closed', /destroyed/);
      await inTime(embedder.destroy());
      await Promise.all([stuck, changing, behind]);
    });
  },
};
