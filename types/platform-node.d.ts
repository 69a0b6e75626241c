/** The model that comes with the package. */
export declare const DEFAULT_MODEL: URL;
/** @type {import('./embedder.js').Platform} */
export declare const platform: import('./embedder.js').Platform;
/**
 * @param {import('./builds.js').Build} build
 * @param {string | URL} [url] another place of it
 * @returns {Promise<WebAssembly.Module>}
 */
export declare function compileBuild(build: import('./builds.js').Build, url?: string | URL): Promise<WebAssembly.Module>;
/**
 * Reads a file.
 * @param {string | URL} path
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export declare function readBytes(path: string | URL): Promise<Uint8Array<ArrayBuffer>>;
