import { WispError } from './errors.js';
export type Task = {
    job: Job;
    request: Record<string, unknown>;
    /**
     * the worker's options when the task is done
     */
    sparse?: import('./sparse.js').SparseOptions;
    done: (value: any) => void;
};
/**
 * One request to a worker. It gets its id when it is sent.
 * @typedef {object} Task
 * @property {Job} job
 * @property {Record<string, unknown>} request
 * @property {import('./sparse.js').SparseOptions} [sparse] the worker's options when the task is done
 * @property {(value: any) => void} done
 */
/** @abstract */
export declare class Job {
    #private;
    promise: Promise<any>;
    settled: boolean;
    /** Estimated tokens of the texts that no worker has taken yet. */
    tokensLeft: number;
    /** Called once, when the promise is settled. */
    onSettled: () => void;
    /** @param {AbortSignal} [signal] */
    constructor(signal?: AbortSignal);
    /** Texts that no worker has taken yet. */
    get waiting(): number;
    /** Whether it goes before bulk work. */
    get urgent(): boolean;
    /**
     * Returns the next task, of at most about `tokens` tokens.
     * @param {number} tokens
     * @returns {Task}
     */
    take(tokens: number): Task;
    /** Keeps the promise of a job that has no tasks. */
    finishEmpty(): void;
    /** @param {any} value */
    finish(value: any): void;
    /** @param {unknown} error */
    fail(error: unknown): void;
}
/** Token ids of one text. */
export declare class TokenizeJob extends Job {
    #private;
    /**
     * @param {string} text
     * @param {AbortSignal} [signal]
     */
    constructor(text: string, signal?: AbortSignal);
    get waiting(): 0 | 1;
    /** @returns {Task} */
    take(): Task;
}
/** A change of what later jobs run by, tried by one worker. */
export declare class ChangeJob extends Job {
    #private;
    taken: boolean;
    /**
     * @param {import('./sparse.js').SparseOptions} options
     * @param {(info: import('./engine.js').EngineInfo) => void} changed called first where it went
     *   well
     */
    constructor(options: import('./sparse.js').SparseOptions, changed: (info: import('./engine.js').EngineInfo) => void);
    /** @returns {Task} */
    take(): Task;
}
/** A worker's way to what another has changed to. Where it does not get there it is of no use. */
export declare class FollowJob extends ChangeJob {
    #private;
    /**
     * @param {import('./sparse.js').SparseOptions} options
     * @param {(error: WispError) => void} discard
     */
    constructor(options: import('./sparse.js').SparseOptions, discard: (error: WispError) => void);
    /** @param {WispError} error */
    fail(error: WispError): void;
}
/** Rows of some texts. */
export declare class EmbedJob extends Job {
    #private;
    /**
     * @param {readonly string[]} texts
     * @param {object} how
     * @param {import('./engine.js').EmbedOptions} how.options
     * @param {number} how.dimensions of a row
     * @param {number} how.maxTokens of a text
     * @param {AbortSignal} [how.signal]
     * @param {(progress: { done: number, total: number }) => void} [how.onProgress]
     */
    constructor(texts: readonly string[], { options, dimensions, maxTokens, signal, onProgress }: {
        options: import('./engine.js').EmbedOptions;
        dimensions: number;
        maxTokens: number;
        signal?: AbortSignal;
        onProgress?: (progress: {
            done: number;
            total: number;
        }) => void;
    });
    get waiting(): number;
    get urgent(): boolean;
    finishEmpty(): void;
    /**
     * @param {number} budget
     * @returns {Task}
     */
    take(budget: number): Task;
}
