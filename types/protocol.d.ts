import { WispError } from './errors.js';
export type SharedModel = Uint8Array | Blob;
export type OpenRequest = {
    id: number;
    type: 'open';
    module: WebAssembly.Module;
    model: SharedModel;
    options: import('./engine.js').EngineOptions;
};
export type SparseRequest = {
    id: number;
    type: 'sparse';
    options: import('./sparse.js').SparseOptions;
};
export type EmbedRequest = {
    id: number;
    type: 'embed';
    texts: string[];
    options: import('./engine.js').EmbedOptions;
};
export type TokenizeRequest = {
    id: number;
    type: 'tokenize';
    text: string;
};
export type Request = OpenRequest | SparseRequest | EmbedRequest | TokenizeRequest;
export type Usage = import('./usage.js').Totals & {
    memoryBytes: number;
};
export type Done = {
    id: number;
    type: 'done';
    value: any;
    usage: Usage;
};
export type Failed = {
    id: number;
    type: 'failed';
    error: PackedError;
    fatal: boolean;
};
export type Reply = Done | Failed;
export type PackedError = {
    code: import('./errors.js').WispErrorCode;
    message: string;
    field: string;
    cause?: {
        name: string;
        message: string;
        stack?: string;
    };
};
/**
 * A model on its way to workers: bytes that all of them share, or a Blob, which is passed by
 * reference and read by each.
 * @typedef {Uint8Array | Blob} SharedModel
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
export declare function packError(error: unknown): PackedError;
/**
 * @param {PackedError} packed
 * @returns {WispError}
 */
export declare function unpackError({ code, message, field, cause }: PackedError): WispError;
