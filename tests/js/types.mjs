// SPDX-License-Identifier: Apache-2.0
// Compiled and never run: what js/ exports is what types/ says.

/** @typedef {Pick<typeof import('../../types/index.js').Embedder, 'load' | 'releaseModels'>} Loader */
/** @typedef {ConstructorParameters<typeof import('../../types/index.js').WispError>} ErrorArguments */

/** @type {(real: typeof import('../../js/node.js').Embedder) => Loader} */
export const node = (real) => real;
/** @type {(real: typeof import('../../js/browser.js').Embedder) => Loader} */
export const browser = (real) => real;
/** @type {(real: typeof import('../../js/node.cjs').Embedder) => Loader} */
export const commonJs = (real) => real;
/** @type {(real: import('../../js/node.js').Rows) => import('../../types/index.js').Rows} */
export const rows = (real) => real;
/** @type {(real: import('../../js/base/errors.js').WispError) => import('../../types/index.js').WispError} */
export const error = (real) => real;
/** @type {(real: typeof import('../../js/base/errors.js').WispError) =>
 *   new (...given: ErrorArguments) => Error} */
export const errorClass = (real) => real;
/** @type {(real: typeof import('../../js/engine/engine.js').Engine) =>
 *   Pick<typeof import('../../types/engine.js').Engine, 'open'>} */
export const engine = (real) => real;
/** @typedef {Pick<typeof import('../../types/rerank.js').Reranker, 'load' | 'releaseModels'>} RerankerLoader */

/** @type {(real: typeof import('../../js/rerank-node.js').Reranker) => RerankerLoader} */
export const rerankNode = (real) => real;
/** @type {(real: typeof import('../../js/rerank-browser.js').Reranker) => RerankerLoader} */
export const rerankBrowser = (real) => real;
/** @type {(real: typeof import('../../js/rerank-node.cjs').Reranker) => RerankerLoader} */
export const rerankCommonJs = (real) => real;
/** @type {(real: typeof import('../../js/hub-node.js')) =>
 *   Pick<typeof import('../../types/hub.js'), 'fromHub' | 'listCached' | 'deleteCached'>} */
export const hubNode = (real) => real;
/** @type {(real: typeof import('../../js/hub-browser.js')) =>
 *   Pick<typeof import('../../types/hub-browser.js'), 'fromHub' | 'fromUrl' | 'listCached' | 'deleteCached'>} */
export const hubBrowser = (real) => real;
/** @type {(real: typeof import('../../js/hub-node.cjs')) =>
 *   Pick<typeof import('../../types/hub.js'), 'fromHub' | 'listCached' | 'deleteCached'>} */
export const hubCommonJs = (real) => real;
/** @type {(real: typeof import('../../js/convert-node.js')) => Omit<typeof import('../../types/convert.js'), 'WispError'>} */
export const convertNode = (real) => real;
/** @type {(real: typeof import('../../js/convert-browser.js')) =>
 *   Omit<typeof import('../../types/convert-browser.js'), 'WispError'>} */
export const convertBrowser = (real) => real;
/** @type {(real: typeof import('../../js/convert-node.cjs')) => Omit<typeof import('../../types/convert.js'), 'WispError'>} */
export const convertCommonJs = (real) => real;
/** @type {(real: typeof import('../../js/text.js')) => Omit<typeof import('../../types/text.js'), 'WispError'>} */
export const text = (real) => real;
/** @type {(real: typeof import('../../js/search.js')) => Omit<typeof import('../../types/search.js'), 'WispError'>} */
export const search = (real) => real;

/** @typedef {Pick<typeof import('../../types/vector-index.js').Index, 'open' | 'load'>} IndexOpener */

/** @type {(real: typeof import('../../js/index-node.js').Index) => IndexOpener} */
export const nodeIndex = (real) => real;
/** @type {(real: typeof import('../../js/index-browser.js').Index) => IndexOpener} */
export const browserIndex = (real) => real;
/** @type {(real: import('../../js/index-node.js').Index) => import('../../types/vector-index.js').Index} */
export const index = (real) => real;
/** @type {(real: import('../../js/node.js').Embedder) => import('../../types/vector-index.js').IndexEmbedder} */
export const indexEmbedder = (real) => real;
/** @type {(real: typeof import('../../js/langchain.js')) => Omit<typeof import('../../types/langchain.js'), 'WispError'>} */
export const langchain = (real) => real;
/** @type {(real: typeof import('../../js/ai.js')) => Omit<typeof import('../../types/ai.js'), 'WispError'>} */
export const ai = (real) => real;
/** @type {(real: typeof import('../../js/pipeline-node.js')) => Omit<typeof import('../../types/pipeline.js'), 'WispError'>} */
export const pipelineNode = (real) => real;
/** @type {(real: typeof import('../../js/pipeline-browser.js')) => Omit<typeof import('../../types/pipeline.js'), 'WispError'>} */
export const pipelineBrowser = (real) => real;
