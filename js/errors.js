// SPDX-License-Identifier: Apache-2.0

/**
 * What a WispError's `code` can be. The first seven are those of the C library's wisp_status;
 * the others arise in JavaScript.
 *
 * @typedef {'argument' | 'memory' | 'io' | 'not_found' | 'format' | 'unsupported' | 'cancelled'
 *   | 'trap' | 'closed'} WispErrorCode
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
