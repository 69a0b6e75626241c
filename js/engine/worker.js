// SPDX-License-Identifier: Apache-2.0
// The code that runs in a worker: one engine that answers the requests of a pool.
import { WispError, packError } from '../base/errors.js';
import { wantedPredictor } from '../base/options.js';
import { openModel } from '../files/lent.js';
import { Engine } from './engine.js';
import { addTotals, noTotals } from './usage.js';

/**
 * Posts replies; returns the function that receives requests.
 * @callback Serve
 * @param {(reply: import('../../types/protocol.js').Reply, transfer: Transferable[]) => void} post
 * @returns {(request: import('../../types/protocol.js').Request) => Promise<void>}
 */

/** @type {(post: Parameters<Serve>[0], kind?: { open: Function }) => ReturnType<Serve>} */
export const serve = (post, kind = Engine) =>
  serveBy(post, kind, (engine, { type, texts, options }) =>
    type === 'embed'
      ? engine.embed(texts, options)
      : Float32Array.from(texts, (text) => engine.countTokens(text)),
  );

/**
 * @param {Parameters<Serve>[0]} post
 * @param {{ open: Function }} Engine
 * @param {(engine: any, request: any) => unknown} work answers the requests that this kind of engine has
 * @returns {ReturnType<Serve>}
 */
export function serveBy(post, Engine, work) {
  /** @type {Engine | undefined} */
  let engine;
  /** @type {Omit<import('../../types/protocol.js').OpenRequest, 'id' | 'type'>} how the engine was opened */
  let origin;
  /** @type {ArrayBuffer | undefined} bytes to give back */
  let lent;
  /** Totals of earlier engines. */
  const totals = noTotals();

  /** @param {typeof origin} from */
  async function open(from) {
    const opened = await openModel(Engine, from);
    if (engine) {
      addTotals(totals, engine.stats());
      engine.close();
    }
    ({ engine, bytes: lent } = opened);
    origin = { ...from, model: { ...from.model, bytes: undefined } };
  }

  /**
   * Weights are packed for one predictor. For another one the model is opened again, from the bytes
   * that are kept for new workers.
   * @param {Engine} current
   * @param {import('../base/options.js').SparseOptions} sparse
   */
  async function change(current, sparse) {
    const { predictor } = current.info();
    const { sparsity } = sparse;
    const from = { ...origin, options: { ...origin.options, ...sparse } };
    if (wantedPredictor(sparse) !== predictor) return open(from);
    if (/lowrank|sentence/.test(predictor) || sparsity !== undefined) current.setSparsity(sparsity);
    origin = from;
  }

  /** @param {import('../../types/protocol.js').Request} request */
  async function answer(request) {
    if (request.type === 'open') await open(request);
    if (!engine) throw new WispError('closed', 'the worker has no model');
    if (request.type === 'sparse') await change(engine, request.options);
    if (request.type === 'open' || request.type === 'sparse') return engine.info();
    if (request.type === 'tokenize') return engine.tokenize(request.text);
    return work(engine, request);
  }

  return async (request) => {
    const { id } = request;
    try {
      const value = await answer(request);
      const { memoryBytes } = /** @type {Engine} */ (engine);
      const usage = { ...structuredClone(totals), memoryBytes };
      addTotals(usage, /** @type {Engine} */ (engine).stats());
      const bytes = lent ?? /** @type {any} */ (value)?.buffer;
      post({ id, type: 'done', value, usage, lent }, bytes ? [bytes] : []);
      lent = undefined;
    } catch (error) {
      post({ id, type: 'failed', error: packError(error), fatal: isFatal(error) }, []);
    }
  };
}

/**
 * Returns whether the engine is lost: it trapped, or failed in a way that is a bug.
 * @param {unknown} error
 */
function isFatal(error) {
  return !(error instanceof WispError) || error.code === 'trap' || error.code === 'closed';
}
