import { WispError } from './errors.js';
export type Link = {
    /**
     * throws what structured clone throws
     */
    post: (message: unknown) => void;
    /**
     * ends the worker; resolves when it is gone
     */
    stop: () => Promise<void>;
    /**
     * whether the worker keeps the process running
     */
    hold: (busy: boolean) => void;
};
export type StartLink = (on: {
    reply: (reply: import('./protocol.js').Reply) => void;
    end: (error: WispError) => void;
}) => Link;
/** One worker of a pool: what it does now, and how it ends. */
export declare class Member {
    #private;
    /** @type {import('./job.js').Task | undefined} */
    task: import('./job.js').Task | undefined;
    ready: boolean;
    /** @type {WispError | undefined} why it ended */
    ended: WispError | undefined;
    /** @type {import('./protocol.js').Usage | undefined} */
    usage: import('./protocol.js').Usage | undefined;
    /** The info of its engine, once ready. */
    info: import("./engine.js").EngineInfo | undefined;
    /** @type {import('./sparse.js').SparseOptions} what its layers run by */
    sparse: import('./sparse.js').SparseOptions;
    /**
     * @param {StartLink} start
     * @param {() => Promise<object>} open gives the request that makes it ready
     * @param {import('./sparse.js').SparseOptions} sparse that is in the request
     * @param {{ idle: (member: Member) => void,
     *   end: (member: Member, error: WispError) => void }} on idle: it is ready for a task. end: it
     *   is gone; its task, if it had one, is still there
     */
    constructor(start: StartLink, open: () => Promise<object>, sparse: import('./sparse.js').SparseOptions, { idle, end }: {
        idle: (member: Member) => void;
        end: (member: Member, error: WispError) => void;
    });
    /**
     * Gives the worker a task. A request that cannot be sent fails its job; the worker stays idle.
     * @param {import('./job.js').Task} task
     */
    run(task: import('./job.js').Task): void;
    /**
     * Ends the worker because of an error. May be called more than once.
     * @param {WispError} error
     */
    discard(error: WispError): void;
    /**
     * Ends the worker because the pool is closed.
     * @param {WispError} error
     */
    stop(error: WispError): Promise<void>;
}
