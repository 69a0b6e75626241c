// SPDX-License-Identifier: Apache-2.0

/** @typedef {import('../../types/index.js').WispErrorCode} WispErrorCode */

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
  // A field, because with frozen intrinsics nobody may assign to a name that Error has.
  name = 'WispError';

  /** By this node.cjs recognises an error without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'WispError';
  }

  /**
   * @param {WispErrorCode} code
   * @param {string} message
   * @param {{ field?: string, cause?: unknown }} [details] `field` names the part of the model
   *   file, or the option, that is at fault
   */
  constructor(code, message, { field = '', cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.field = field;
  }
}

/**
 * The environment allows no workers, though nothing is missing. If the caller did not ask for
 * workers, the calling thread computes instead.
 */
export class NoWorkersError extends WispError {
  /**
   * @param {string} reason
   * @param {unknown} [cause]
   */
  constructor(reason, cause) {
    super('worker', `${reason}; with { workers: 0 } the calling thread computes`, { cause });
    this.reason = reason;
  }
}

/**
 * Returns the error that an aborted call rejects with. Its name is that of the signal's reason,
 * AbortError or TimeoutError, because programs tell by it that a call was aborted.
 * @param {AbortSignal} signal
 */
export function cancelled(signal) {
  const { reason } = signal;
  const error = new WispError('cancelled', 'the call was aborted', { cause: reason });
  error.name = reason?.name === 'TimeoutError' ? 'TimeoutError' : 'AbortError';
  return error;
}

/** @param {AbortSignal | undefined} signal */
export function throwIfAborted(signal) {
  if (signal?.aborted) throw cancelled(signal);
}

/**
 * Returns whether JavaScript itself has reached a limit, of memory or of its stack. Firefox has an
 * error of its own for that.
 * @param {unknown} error
 */
export function isEngineLimit(error) {
  return error instanceof RangeError || (error instanceof Error && error.name === 'InternalError');
}

/**
 * @param {string} what there was no memory for
 * @param {unknown} [cause]
 */
export function outOfMemory(what, cause) {
  return new WispError('memory', `out of memory: ${what}`, { cause });
}

/**
 * Runs a function that takes memory of JavaScript.
 * @template T
 * @param {string} what it is for
 * @param {() => T} allocate
 * @returns {T}
 */
export function takeMemory(what, allocate) {
  try {
    return allocate();
  } catch (cause) {
    throw isEngineLimit(cause) ? outOfMemory(what, cause) : cause;
  }
}

/** @type {WeakMap<AbortSignal, Set<() => void>>} */
const waiting = new WeakMap();

/**
 * Calls `body` when the signal is aborted. A signal gets one listener, however many calls share it:
 * Node warns of a leak from the eleventh on.
 * @param {AbortSignal} signal
 * @param {() => void} body
 * @returns {() => void} takes `body` back
 */
export function onAbort(signal, body) {
  let bodies = waiting.get(signal);
  if (!bodies) {
    const all = (bodies = new Set());
    waiting.set(signal, all);
    signal.addEventListener('abort', () => all.forEach((each) => each()), { once: true });
  }
  bodies.add(body);
  return () => void bodies.delete(body);
}

/**
 * Packs an error for a message: structured clone would lose its class and code.
 * @param {unknown} error
 * @returns {import('../../types/protocol.js').PackedError}
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
 * @param {import('../../types/protocol.js').PackedError} packed
 * @returns {WispError}
 */
export function unpackError({ code, message, field, cause }) {
  if (!cause) return new WispError(code, message, { field });
  const original = new Error(cause.message);
  Object.defineProperty(original, 'name', { value: cause.name });
  original.stack = cause.stack;
  return new WispError(code, message, { field, cause: original });
}

/** @param {unknown} error */
function describe(error) {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  return { name: error.name, message: error.message, stack: error.stack };
}
