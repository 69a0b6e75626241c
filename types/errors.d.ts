export type WispErrorCode = 'argument' | 'memory' | 'io' | 'not_found' | 'format' | 'unsupported' | 'cancelled' | 'trap' | 'closed' | 'worker' | 'busy';
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
export declare const STATUS_CODES: readonly (WispErrorCode | 'ok')[];
/** Every error that wisp throws on purpose. */
export declare class WispError extends Error {
    code: WispErrorCode;
    field: string;
    /**
     * @param {WispErrorCode} code
     * @param {string} message
     * @param {{ field?: string, cause?: unknown }} [details] `field` names the part of the model
     *   file, or the option, that is at fault
     */
    constructor(code: WispErrorCode, message: string, { field, cause }?: {
        field?: string;
        cause?: unknown;
    });
}
/**
 * Returns the error that an aborted call rejects with.
 * @param {AbortSignal} signal
 */
export declare function cancelled(signal: AbortSignal): WispError;
/**
 * @param {AbortSignal | undefined} signal
 */
export declare function throwIfAborted(signal: AbortSignal | undefined): void;
