export type Job = import('./job.js').Job;
/** @typedef {import('./job.js').Job} Job */
/**
 * Jobs that wait, with changes of the sparse options between them. A change is taken when all jobs
 * before it have been taken; the jobs after it wait until the change is settled.
 */
export declare class Backlog {
    #private;
    /** Number of waiting texts. */
    get texts(): number;
    /** @param {Job} job */
    add(job: Job): void;
    /**
     * Removes a settled job. The jobs after a removed change then wait for the change before it.
     * @param {Job} job
     */
    remove(job: Job): void;
    /**
     * @param {number} workers among whom bulk work is shared
     * @returns {import('./job.js').Task | undefined}
     */
    next(workers: number): import('./job.js').Task | undefined;
}
