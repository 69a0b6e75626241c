// SPDX-License-Identifier: Apache-2.0

/**
 * The codes of a WispError. The first seven are those of the C library's wisp_status; the others come
 * from JavaScript.
 *
 * @typedef {'argument' | 'memory' | 'io' | 'not_found' | 'format' | 'unsupported' | 'cancelled'
 *   | 'trap' | 'closed' | 'worker' | 'busy'} WispErrorCode
 *
 * trap: the WebAssembly instance failed and was dropped. closed: close() or destroy() was called.
 * worker: a worker could not start, ended or sent a malformed reply. busy: the queue is full.
 */

/**
 * Codes by wisp_status number.
 * @type {readonly (WispErrorCode | 'ok')[]}
 */
export const STATUS_CODES = [
  'ok',
  'argument',
  'memory',
  'io',
  'not_found',
  'format',
  'unsupported',
  'cancelled',
];

/** Every error that wisp throws on purpose. */
export class WispError extends Error {
  /**
   * @param {WispErrorCode} code
   * @param {string} message
   * @param {{ field?: string, cause?: unknown }} [details] `field` names the part of the model
   *   file, or the option, that is at fault
   */
  constructor(code, message, { field = '', cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'WispError';
    this.code = code;
    this.field = field;
  }
}

/**
 * Returns the error that an aborted call rejects with.
 * @param {AbortSignal} signal
 */
export function cancelled(signal) {
  return new WispError('cancelled', 'the call was aborted', { cause: signal.reason });
}

/**
 * @param {AbortSignal | undefined} signal
 */
export function throwIfAborted(signal) {
  if (signal?.aborted) throw cancelled(signal);
}
