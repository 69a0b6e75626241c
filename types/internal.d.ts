// SPDX-License-Identifier: Apache-2.0
// Types that the modules of the package hand to each other. They stand here, because a page loads the comments of js/.
import type { Bytes } from '../js/ranges/cold-ranges.js';
import type { EngineOptions } from '../js/engine/engine.js';
import type { WispError } from '../js/base/errors.js';
import type { Member } from '../js/calls/member.js';
import type { Job } from '../js/calls/job.js';
import type { Pool } from '../js/calls/pool.js';
import type { ModelFile } from './addon.js';
import type { Native } from '../js/native/addon-node.js';
import type { ConvertSettings } from './convert.js';
import type { EmbedOptions, EmbedderInfo, EngineInfo, LoadOptions, ModelSource } from './index.js';
import type { SparseOptions } from './index.js';
import type { Reply, SharedModel } from './protocol.js';

/** A WebAssembly build of the engine. */
export type Build = 'simd128' | 'relaxed';

/** How a model is read. */
export interface Reading {
  signal: AbortSignal;
  /** In bytes. */
  progress(loaded: number, total: number | undefined): void;
  /** That the bytes must have: 'sha256-' and the hash in base64. */
  integrity?: string | undefined;
  /** Whether workers end and come back. */
  rests?: boolean;
  /** Native code that computes, and may read a file by itself. */
  addon?: unknown;
}

/** A file of which ranges are read. */
export interface RangeFile {
  readonly name: string;
  /** Bytes; 0 before the first range has been read. */
  size: number;
  /** The state of a file, as its server names it; null: it does not; undefined: it has not been asked. */
  state?: string | null | undefined;
  /** Asks a server whether the file is as it was; undefined: it cannot say. Other files have no store. */
  isStill?(state: string, size: number, signal: AbortSignal): Promise<boolean | undefined>;
  /** Whether all of it came instead of a range. */
  readonly isWhole: boolean;
  /** Requests so far, and bytes that came. */
  readonly requests: number;
  readonly received: number;
  /** Writes bytes start to end - 1 of the file, or to its end if that comes first. */
  read(range: [number, number], bytes: Bytes, signal: AbortSignal): Promise<void>;
}

/** The bytes of a model, for a pool and its workers. */
export interface HeldModel {
  model: SharedModel | ModelFile;
  /** Says that the embedder needs them no more; further calls do nothing. Resolves when nothing is stored any more. */
  release(): void | Promise<void>;
}

/** The functions of the environment, browser or Node, that a pool needs. */
export interface Platform {
  cores(): number;
  /** Why this script cannot start workers, if so. */
  noWorkers(): string | undefined;
  /** The address of a folder given as an option. */
  folder(files: string | URL): URL;
  /** Whether workers share model bytes. */
  sharing(): { shared: boolean; reason: string };
  compile(
    own: () => URL,
    url: string | URL | undefined,
    signal: AbortSignal,
    integrity?: string,
  ): Promise<WebAssembly.Module>;
  readModel(own: () => URL, source: ModelSource | undefined, reading: Reading): Promise<HeldModel>;
  /** Loads a model by ranges. wisp-engine/cold sets it. */
  cold?(
    platform: Platform,
    own: Own,
    source: ModelSource | undefined,
    options: LoadOptions,
    wanted: LoadOptions['cold'],
  ): Promise<Loaded>;
  startWorker(
    own: () => any,
    given: string | URL | (() => any) | undefined,
    startTimeout: number,
  ): StartLink;
}

/**
 * The package's files for one class: at literal addresses that bundlers follow, and by name in a folder
 * with copies of them.
 */
export interface Own {
  module(build: Build, threads?: number): URL;
  model(): URL;
  /** Starts one. */
  worker(): any;
  names: { module: string; threads?: string; model: string; worker: string };
  /** Returns how many threads a worker has; 0 or none: its module has no shared memory. */
  threads?(platform: Platform, options: any): number | undefined;
  /** Loads a model for workers that may have threads. */
  withThreads?(
    platform: Platform,
    plain: Own,
    source: ModelSource | undefined,
    options: LoadOptions,
  ): Promise<Loaded>;
  /** If workers may share memory, the threads of one do the work of several. */
  isTeam?: boolean;
  /** Runs a worker's code on the calling thread. */
  local: StartLink;
  native?(options: LoadOptions): Native;
  /** Those of the pool. */
  hooks?: readonly PoolHooks[];
  /** Unless asked for more: each holds the model's packed weights. */
  mostWorkers: number;
}

/** Facts of an engine with threads; `reasons` if there are fewer threads than were asked for. */
export type TeamInfo = EngineInfo & { threads: number; reasons?: { threads: string } };

/** The parts of a LoadedModel. */
export interface Loaded {
  pool: Pool;
  /** Frees the model's bytes. */
  release(): Promise<void>;
  /** The part of info() that the engine does not know. */
  about: Omit<EmbedderInfo, keyof EngineInfo>;
  plan: import('../js/calls/load.js').Plan;
}

/**
 * The arguments of a Pool: workers with one model, and their jobs.
 *
 * When a worker ends, it is replaced and its task is given to another. A task that has cost MOST_LOSSES
 * workers fails its job with the cause. Workers cannot be started without end: a new one is started
 * only for a task that was lost with its worker, or for a job that was submitted while workers were
 * missing. A worker that never becomes ready is not replaced. When no worker is left, the waiting jobs
 * fail with the cause.
 *
 * A worker that has had no task for idleTimeout ends, and rests until there is work for it.
 *
 * A change of the sparse options is tried by one worker when all earlier jobs are taken. If it
 * succeeds, every other worker makes the change before its next task; else nothing has changed.
 *
 * The bytes of a page's model go from one worker to the next. When all have opened it, they are let go: a worker that
 * is started later reads them again.
 */
export interface PoolParts {
  /** Workers. */
  size: number;
  start: StartLink;
  /** The module or addon, and the model. */
  files: Promise<[unknown, SharedModel | ModelFile]>;
  options: EngineOptions;
  /** Texts that may wait at once. */
  queueLimit: number;
  /** Milliseconds after which a worker without a task ends. */
  idleTimeout: number;
  hooks?: readonly PoolHooks[] | undefined;
}

/** What takes part in the work of a pool. Hooks are called one after the other, as they were given. */
export interface PoolHooks {
  /** A job has been accepted. */
  submitted?(job: Job): void;
  /** A task is taken that would have about so many tokens; returns how many it is to have. */
  taken?(tokens: number): number;
  /** A worker has done a task of a job, which has not seen its result. */
  done?(job: Job, result: any): void;
  /** Returns what stats() has beside the pool's numbers. */
  stats?(): object;
}

/** A worker of the platform. */
export interface Link {
  /** Throws what structured clone throws. */
  post(message: unknown, transfer?: Transferable[]): void;
  /** Ends the worker; resolves when it is gone. */
  stop(): Promise<void>;
  /** Whether the worker keeps the process running. */
  hold(busy: boolean): void;
  /** Gives up the request that is computed. */
  cancel?(): void;
}

/** Starts a worker. `end` is called at most once, when the worker has ended by itself. */
export type StartLink = (on: {
  reply: (reply: Reply) => void;
  end: (error: WispError) => void;
}) => Link;

/** Texts that an engine writes, or its search. */
export interface Work {
  /**
   * Goes on for about so many seconds. Returns what came of it, and whether it has `ended`. A native thread
   * goes on to the end, and hands out what comes of it meanwhile.
   */
  run(seconds: number, hand: (value: any) => void): any;
  /** Ends the run of a native thread. */
  stop?(): void;
  close(): void;
}

/** The events of a worker that its pool hears of. */
export interface MemberEvents {
  /** It is ready for a task. */
  idle(member: Member): void;
  /** It is gone; its task, if it had one, is still there. */
  end(member: Member, error: WispError): void;
}

/** How texts are embedded, or their tokens counted. */
export interface EmbedHow {
  /** The request's type. A row of count is the number of tokens, and one of rank a score. Default: embed. */
  type?: 'embed' | 'count' | 'rank' | undefined;
  options: EmbedOptions & { query?: string };
  /** Values of a row. */
  dimensions: number;
  /** The most tokens of a text. */
  maxTokens: number;
  priority?: 'high' | 'low' | 'auto' | undefined;
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
}

/** One request to a worker. It gets its id when it is sent. */
export interface Task {
  job: { readonly settled: boolean; fail(error: unknown): void; onDone?(result: any): void };
  request: Record<string, unknown>;
  /** Resolves when the request is whole; undefined: it is. */
  ready?: Promise<void>;
  /** The worker's options when the task is done. */
  sparse?: SparseOptions;
  done(value: any): void;
  /** Gets results before it is done; such a task can be stopped. */
  part?(value: any): void;
  /** The tasks of several jobs that this one gathers. */
  parts?: Task[];
  /** Workers that ended while they worked on it. */
  losses?: number;
}

/** The files that a conversion reads, by synchronous calls: wasm/convert/files.c. */
export interface ConvertFiles {
  /** 0: there is none, 1: a file, 2: a folder. */
  kind(path: string): number;
  /** Returns undefined if there is no such file; throws if it cannot be opened. */
  open(path: string): { file: number; size: number } | undefined;
  /** Fills `into`. Returns false if the file has changed since it was opened. */
  read(file: number, offset: number, into: Uint8Array): boolean;
  close(file: number): void;
}

/** The output of a conversion. The bytes it is given are the module's, and have to be copied. */
export interface ConvertOutput {
  write(bytes: Uint8Array): void;
  /** Writes over bytes that were written. */
  writeAgain(offset: number, bytes: Uint8Array): void;
  /** Returns the result, and the parts of it that are handed over. */
  end(): { value: Blob | Uint8Array<ArrayBuffer> | undefined; transfer: Transferable[] };
}

/** The request to a worker that converts. */
export interface ConvertTask {
  module: WebAssembly.Module;
  /** The path of the model. */
  input: string;
  /** The output's name in errors. */
  name: string;
  options: ConvertSettings;
  /** Files that are read, by path; without them they are on the disk. */
  files?: Map<string, Blob | Uint8Array> | undefined;
  /** The output's descriptor, in Node; without it the result is bytes. */
  descriptor?: number | undefined;
}

/** A model to convert as it was found. */
export type FoundModel = Pick<ConvertTask, 'input' | 'files'> & {
  /** The model's name, if its folder has none. */
  modelName?: string | undefined;
};
