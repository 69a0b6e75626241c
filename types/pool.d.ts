/**
 * Workers with one model, and their jobs.
 *
 * When a worker ends, the job it worked on fails with the cause and the worker is replaced. Workers
 * cannot be started without end: a new one is started only for a task that was lost with its worker,
 * or for a job that was submitted while workers were missing. A worker that never becomes ready is
 * not replaced. When no worker is left, the waiting jobs fail with the cause.
 *
 * A change of the sparse options is tried by one worker when all earlier jobs are taken. Where it
 * succeeds, every other worker makes the change before its next task; else nothing has changed.
 */
export declare class Pool {
    #private;
    /** The info of the engines. */
    info: import('./engine.js').EngineInfo | undefined;
    /**
     * @param {object} how
     * @param {number} how.size workers
     * @param {import('./member.js').StartLink} how.start
     * @param {Promise<[WebAssembly.Module, import('./protocol.js').SharedModel]>} how.files
     * @param {import('./engine.js').EngineOptions} how.options
     * @param {number} how.queueLimit texts that may wait at once
     */
    constructor({ size, start, files, options, queueLimit }: {
        size: number;
        start: import('./member.js').StartLink;
        files: Promise<[WebAssembly.Module, import('./protocol.js').SharedModel]>;
        options: import('./engine.js').EngineOptions;
        queueLimit: number;
    });
    /**
     * Starts all workers. Where one of them cannot start, all are ended.
     * @param {(ready: number) => void} onReady
     */
    open(onReady: (ready: number) => void): Promise<void>;
    /**
     * @param {import('./job.js').Job} job
     * @returns {Promise<any>} the job's promise
     */
    submit(job: import('./job.js').Job): Promise<any>;
    /**
     * Changes the sparse options of jobs that are submitted from now on.
     * @param {import('./sparse.js').SparseOptions} options
     * @returns {Promise<void>}
     */
    setSparse(options: import('./sparse.js').SparseOptions): Promise<void>;
    /** Waits for the jobs there are, then ends the workers. */
    close(): Promise<void>;
    /** Fails the jobs there are and ends the workers. */
    destroy(): Promise<void>;
    /** Numbers of now, and totals since the pool was opened. */
    stats(): {
        texts: number;
        tokens: number;
        truncatedTexts: number;
        stageSeconds: Record<string, number>;
        layers: import("./engine.js").LayerStats[];
        /** WebAssembly memory of all workers. */
        memoryBytes: number;
        workers: number;
        busyWorkers: number;
        lostWorkers: number;
        waitingTexts: number;
    };
}
