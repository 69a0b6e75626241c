export type Job = import('./job.js').Job;
/** Jobs with tasks that no worker has taken. Single texts go first; bulk jobs take turns. */
export declare class Queue {
    #private;
    /** Number of waiting texts. */
    get texts(): number;
    get jobs(): import("./job.js").Job[];
    get empty(): boolean;
    /** @param {Job} job */
    add(job: Job): void;
    /** @param {Job} job */
    remove(job: Job): void;
    /**
     * @param {number} workers among whom bulk work is shared
     * @returns {import('./job.js').Task | undefined}
     */
    next(workers: number): import('./job.js').Task | undefined;
}
