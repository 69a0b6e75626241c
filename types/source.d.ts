import { WispError } from './errors.js';
export type ModelSource = string | URL | Blob | ArrayBuffer | SharedArrayBuffer | ArrayBufferView;
export type Reading = {
    signal: AbortSignal;
    /**
     * in bytes
     */
    progress: (loaded: number, total: number | undefined) => void;
};
/**
 * The model of Embedder.load: a path (in Node), a URL, a File or Blob, or bytes. Default: the model
 * of the package.
 * @typedef {string | URL | Blob | ArrayBuffer | SharedArrayBuffer | ArrayBufferView}
 *   ModelSource
 */
/**
 * @typedef {object} Reading
 * @property {AbortSignal} signal
 * @property {(loaded: number, total: number | undefined) => void} progress in bytes
 */
/**
 * @param {URL | string} url
 * @param {AbortSignal} signal
 * @returns {Promise<Response>} with a body
 */
export declare function request(url: URL | string, signal: AbortSignal): Promise<Response>;
/**
 * Returns the bytes that a response's body should have; undefined where it is compressed or unknown.
 * @param {Response} response
 */
export declare function bodySize(response: Response): number | undefined;
/**
 * Reads a stream into memory that workers can share.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {number | undefined} total
 * @param {string} name
 * @param {Reading} reading
 * @returns {Promise<Uint8Array>}
 */
export declare function readStream(stream: ReadableStream<Uint8Array>, total: number | undefined, name: string, { signal, progress }: Reading): Promise<Uint8Array>;
/**
 * Reads a stream part by part. Where the stream allows it, all parts are read into one buffer: a new
 * buffer for each part would make as much garbage as the model has bytes.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {string} name
 * @param {AbortSignal} signal
 * @param {(part: Uint8Array) => void} take
 */
export declare function readParts(stream: ReadableStream<Uint8Array>, name: string, signal: AbortSignal, take: (part: Uint8Array) => void): Promise<void>;
/** @param {number} size */
export declare const sharedBytes: (size: number) => Uint8Array<SharedArrayBuffer>;
/** @param {number} size */
export declare const ownBytes: (size: number) => Uint8Array<ArrayBuffer>;
/**
 * Returns a view of all bytes of a buffer or view; undefined for anything else.
 * @param {unknown} source
 * @returns {Uint8Array | undefined}
 */
export declare function viewOf(source: unknown): Uint8Array | undefined;
/**
 * Returns the bytes of a view in shared memory: the same bytes where they are shared, else a copy.
 * @param {Uint8Array} view
 * @returns {Uint8Array}
 */
export declare function share(view: Uint8Array): Uint8Array;
/** @param {unknown} source */
export declare function wrongSource(source: unknown): WispError;
