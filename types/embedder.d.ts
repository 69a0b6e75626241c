import { Pool } from './pool.js';
export type Platform = {
    cores: () => number;
    /**
     * whether workers share model bytes
     */
    sharing: () => {
        shared: boolean;
        reason: string;
    };
    compile: (build: import('./builds.js').Build, url: string | URL | undefined, signal: AbortSignal) => Promise<WebAssembly.Module>;
    readModel: (source: import('./source.js').ModelSource | undefined, reading: import('./source.js').Reading) => Promise<import('./protocol.js').SharedModel>;
    startWorker: (given: string | URL | (() => any) | undefined, startTimeout: number) => import('./member.js').StartLink;
};
export type LoadProgress = {
    phase: 'model' | 'workers';
    loaded: number;
    total: number | undefined;
};
export type LoadOptions = {
    /**
     * number of workers; 0: compute on the calling thread. Default: one for
     * each core, at most 4
     */
    workers?: number;
    /**
     * gives up loading
     */
    signal?: AbortSignal;
    onProgress?: (progress: LoadProgress) => void;
    /**
     * auto: int8 where the file's weights are quantised
     */
    compute?: 'auto' | 'f32' | 'int8';
    /**
     * the name of a kernel set, such as 'simd128'. Default: the fastest
     */
    kernels?: string;
    /**
     * which neurons are
     * computed; setSparse changes it
     */
    predictor?: import('./sparse.js').SparseOptions['predictor'];
    /**
     * the share of neurons that a calibrated model skips
     */
    sparsity?: number;
    /**
     * count the predictor's recall: see stats
     */
    recall?: boolean;
    /**
     * a call that would make more texts wait than this fails as 'busy'.
     * Default: no limit
     */
    queueLimit?: number;
    /**
     * the module, or its URL
     */
    wasm?: string | URL | WebAssembly.Module;
    /**
     * the URL of the worker's script, or a function that
     * makes a Worker of it, for bundlers that do not find the script beside this file
     */
    worker?: string | URL | (() => any);
    /**
     * in browsers, milliseconds until a worker whose script has not
     * begun to run counts as failed. Default: 60,000
     */
    startTimeout?: number;
};
export type CallOptions = {
    /**
     * rejects the call at once
     */
    signal?: AbortSignal;
};
export type EmbedCallOptions = import('./engine.js').EmbedOptions & CallOptions & {
    onProgress?: (progress: {
        done: number;
        total: number;
    }) => void;
};
export type Loaded = {
    pool: Pool;
    modelBytes: number;
    workers: number;
    sharedMemory: boolean;
    reasons: {
        build: string;
        workers: string;
        memory: string;
    };
};
/**
 * @typedef {object} Loaded the parts of a platform's Embedder
 * @property {Pool} pool
 * @property {number} modelBytes
 * @property {number} workers
 * @property {boolean} sharedMemory
 * @property {{ build: string, workers: string, memory: string }} reasons
 */
/**
 * Loads a model and starts the workers. Where anything fails, nothing stays open.
 * @param {Platform} platform
 * @param {import('./source.js').ModelSource | undefined} source
 * @param {LoadOptions} options
 * @returns {Promise<Loaded>}
 */
export declare function load(platform: Platform, source: import('./source.js').ModelSource | undefined, options?: LoadOptions): Promise<Loaded>;
/** A model that embeds texts, by workers that share the load. Made by Embedder.load. */
export declare class BaseEmbedder {
    #private;
    /** @param {Loaded} loaded */
    constructor(loaded: Loaded);
    /** Values of one embedding. */
    get dimensions(): number;
    /**
     * Resolves to a row for each text, in their order. The bits of a row depend on its text, the model
     * and the options, and not on other texts or the workers. Single texts go before bulk work.
     * @param {string | readonly string[]} texts
     * @param {EmbedCallOptions} [options]
     * @returns {Promise<import('./rows.js').Rows>}
     */
    embed(texts: string | readonly string[], { signal, onProgress, prompt, dimensions }?: EmbedCallOptions): Promise<import('./rows.js').Rows>;
    /**
     * Resolves to the token ids that the model computes with, special tokens included, truncated to its
     * limit.
     * @param {string} text
     * @param {CallOptions} [options]
     * @returns {Promise<Int32Array>}
     */
    tokenize(text: string, { signal }?: CallOptions): Promise<Int32Array>;
    /**
     * Changes which neurons are computed; the options are those of loading. Earlier calls run with the
     * old options, later calls with the new ones, after all earlier calls. Resolves when the change is in
     * force. Where it rejects, nothing has changed.
     * @param {import('./sparse.js').SparseOptions} [options]
     * @returns {Promise<void>}
     */
    setSparse({ predictor, sparsity }?: import('./sparse.js').SparseOptions): Promise<void>;
    /** Returns what was loaded, how it runs, and the reasons. */
    info(): {
        name: string;
        architecture: string;
        compute: string;
        kernels: string;
        predictor: string;
        sparsity: number;
        pooling: string;
        hiddenSize: number;
        intermediateSize: number;
        layers: number;
        heads: number;
        vocabularySize: number;
        maxTokens: number;
        parameters: number;
        residentBytes: number;
        build: string;
        features: string;
        dimensions: number;
        modelBytes: number;
        workers: number;
        sharedMemory: boolean;
        reasons: {
            build: string;
            workers: string;
            memory: string;
        };
    };
    /**
     * Returns totals since loading, and the present state. With the option `recall`, layers also count
     * how many of the needed neurons are computed. Without ReLU, these are the largest fifth among the
     * texts of each worker.
     */
    stats(): {
        texts: number;
        tokens: number;
        truncatedTexts: number;
        stageSeconds: Record<string, number>;
        layers: import("./engine.js").LayerStats[];
        memoryBytes: number;
        workers: number;
        busyWorkers: number;
        lostWorkers: number;
        waitingTexts: number;
    };
    /** Waits for the calls that are under way, then ends the workers. */
    close(): Promise<void>;
    /** Rejects the calls that are under way and ends the workers. */
    destroy(): Promise<void>;
}
