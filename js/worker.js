// SPDX-License-Identifier: Apache-2.0
// The inside of a worker: one engine that answers a pool's requests.
import { Engine } from './engine.js';
import { WispError } from './errors.js';
import { packError } from './protocol.js';

/**
 * @param {(reply: import('./protocol.js').Reply, transfer: Transferable[]) => void} post
 * @returns {(request: import('./protocol.js').Request) => Promise<void>}
 */
export function serve(post) {
  /** @type {Engine | undefined} */
  let engine;

  /** @param {import('./protocol.js').Request} request */
  async function answer(request) {
    if (request.type === 'open') {
      engine = await Engine.open(request.module, await bytesOf(request.model), request.options);
      return engine.info();
    }
    if (!engine) throw new WispError('closed', 'the worker has no model');
    return request.type === 'embed'
      ? engine.embed(request.texts, request.options)
      : engine.tokenize(request.text);
  }

  return async (request) => {
    const { id } = request;
    try {
      const value = await answer(request);
      const { memoryBytes } = /** @type {Engine} */ (engine);
      const usage = { .../** @type {Engine} */ (engine).stats(), memoryBytes };
      post({ id, type: 'done', value, usage }, ArrayBuffer.isView(value) ? [value.buffer] : []);
    } catch (error) {
      post({ id, type: 'failed', error: packError(error), fatal: isFatal(error) }, []);
    }
  };
}

/**
 * Whether the engine is lost: it trapped, or something failed that should not.
 * @param {unknown} error
 */
function isFatal(error) {
  return !(error instanceof WispError) || error.code === 'trap' || error.code === 'closed';
}

/**
 * @param {import('./protocol.js').SharedModel} model
 * @returns {Promise<Uint8Array>}
 */
async function bytesOf(model) {
  if (model instanceof Uint8Array) return model;
  try {
    return new Uint8Array(await model.arrayBuffer());
  } catch (cause) {
    throw new WispError('io', 'the model cannot be read', { cause });
  }
}
