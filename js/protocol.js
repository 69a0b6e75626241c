// SPDX-License-Identifier: Apache-2.0
// The messages between a pool and its workers. A worker gets one request at a time and answers each
// with one reply of the same id.
import { WispError } from './errors.js';

/**
 * A model on its way to workers: a part of a buffer that all of them share, or a Blob, which is
 * passed by reference and read by each. A message has the buffer and not a view of it: Deno takes
 * seconds to send a view.
 * @typedef {{ buffer: SharedArrayBuffer, at: number, size: number }} SharedBytes
 * @typedef {SharedBytes | Blob} SharedModel
 */

/**
 * @typedef {{ id: number, type: 'open', module: WebAssembly.Module, model: SharedModel,
 *   options: import('./engine.js').EngineOptions }} OpenRequest
 * @typedef {{ id: number, type: 'sparse', options: import('./sparse.js').SparseOptions }}
 *   SparseRequest
 * @typedef {{ id: number, type: 'embed', texts: string[],
 *   options: import('./engine.js').EmbedOptions }} EmbedRequest
 * @typedef {{ id: number, type: 'tokenize', text: string }} TokenizeRequest
 * @typedef {OpenRequest | SparseRequest | EmbedRequest | TokenizeRequest} Request
 */

/**
 * Totals of one worker since it was opened, and the memory it holds.
 * @typedef {import('./usage.js').Totals & { memoryBytes: number }} Usage
 */

/**
 * `value` is an EngineInfo for open and sparse, a Float32Array for embed, an Int32Array for tokenize.
 * @typedef {{ id: number, type: 'done', value: any, usage: Usage }} Done
 * @typedef {{ id: number, type: 'failed', error: PackedError, fatal: boolean }} Failed
 * @typedef {Done | Failed} Reply
 */

/**
 * An error in a form that structured clone keeps; it would lose the class and the code.
 * @typedef {{ code: import('./errors.js').WispErrorCode, message: string, field: string,
 *   cause?: { name: string, message: string, stack?: string } }} PackedError
 */

/**
 * @param {unknown} error
 * @returns {PackedError}
 */
export function packError(error) {
  if (error instanceof WispError) {
    const { code, message, field, cause } = error;
    return { code, message, field, cause: cause === undefined ? undefined : describe(cause) };
  }
  const cause = describe(error);
  return { code: 'worker', message: `a worker failed: ${cause.message}`, field: '', cause };
}

/**
 * @param {PackedError} packed
 * @returns {WispError}
 */
export function unpackError({ code, message, field, cause }) {
  if (!cause) return new WispError(code, message, { field });
  const original = new Error(cause.message);
  original.name = cause.name;
  original.stack = cause.stack;
  return new WispError(code, message, { field, cause: original });
}

/** @param {unknown} error */
function describe(error) {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  return { name: error.name, message: error.message, stack: error.stack };
}
