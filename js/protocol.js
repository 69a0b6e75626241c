// SPDX-License-Identifier: Apache-2.0
// The messages between a pool and its workers. A worker gets one request at a time and answers each
// with one reply of the same id.
import { WispError } from './errors.js';

/** @typedef {import('../types/protocol.js').PackedError} PackedError */

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
