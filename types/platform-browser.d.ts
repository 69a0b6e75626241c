/** @type {import('./embedder.js').Platform} */
export declare const platform: import('./embedder.js').Platform;
