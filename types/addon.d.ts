// SPDX-License-Identifier: Apache-2.0

/** An engine of the addon. */
export interface Handle {
  readonly isEngine: true;
}

/** A file that an addon reads. It is open as long as something has this object and an embedder or generator uses it. */
export interface ModelFile {
  descriptor: number;
  size: number;
  /** Throws if the file was written to since it was opened. */
  check(): void;
}

/**
 * The functions of src/node/addon.c. Functions that fail throw, or reject with, an error that has a
 * wisp_status as `status` and a `field`. A handle has one promise at a time, and serves no other call
 * meanwhile but cancel and close.
 */
export interface Addon {
  version: string;
  /** The kernel sets that run here. */
  kernels: string[];
  create(threaded: boolean): Handle;
  set(engine: Handle, name: string, text: string | undefined, number: number): void;
  openModel(engine: Handle, model: Uint8Array | ModelFile): Promise<void>;
  shareModel(engine: Handle, other: Handle): void;
  openSession(engine: Handle): void;
  cancel(engine: Handle): void;
  close(engine: Handle): Promise<void>;
  embed(
    engine: Handle,
    texts: readonly string[],
    prompt: string | undefined,
    dimensions: number,
    rows: Float32Array,
  ): Promise<void>;
  /** Writes scores of the texts behind the first, which is the query. The last value stays as it is. */
  rank(
    engine: Handle,
    texts: readonly string[],
    prompt: undefined,
    dimensions: 1,
    scores: Float32Array,
  ): Promise<void>;
  /** Writes how many ids each text has before it is truncated. */
  count(
    engine: Handle,
    texts: readonly string[],
    prompt: undefined,
    dimensions: 1,
    counts: Float32Array,
  ): Promise<void>;
  tokenize(engine: Handle, texts: readonly [string]): Promise<Int32Array>;
  prompt(engine: Handle, name: string | undefined): string | undefined;
  /**
   * Begin texts (describe of text-engine.js), or a search. Until endWork the handle serves only run and
   * stop, cancel and close.
   */
  openWriting(engine: Handle, description: Uint8Array, atOnce: number): Promise<void>;
  openSearch(
    engine: Handle,
    prompt: readonly [string],
    beams: number,
    maxTokens: number,
    lengthPenalty: number,
    stopIds: Int32Array,
  ): Promise<void>;
  /**
   * Resolves to JSON: of a Written or the BeamText[] `found`, and whether all has `ended`. A threaded engine
   * goes on to the end, or until stop, and calls `part` with what comes before that; another one goes on for
   * about so many seconds.
   */
  run(engine: Handle, seconds: number, part: (json: string) => void): Promise<string>;
  stop(engine: Handle): void;
  endWork(engine: Handle): void;
  /** Writes a row for each id. */
  logits(engine: Handle, ids: Int32Array, logits: Float32Array): Promise<void>;
  /** Writes a value for each id from `first` on. */
  score(engine: Handle, ids: Int32Array, first: number, logprobs: Float32Array): Promise<void>;
  /** Resolves to a JSON string. */
  detokenize(engine: Handle, ids: Int32Array, continues: boolean): Promise<string>;
  saveState(engine: Handle): Promise<Uint8Array>;
  loadState(engine: Handle, state: Uint8Array): Promise<void>;
  chatTemplate(engine: Handle): string | undefined;
  cacheType(engine: Handle): string;
  threads(engine: Handle): number;
  /** Return JSON; undefined if there is no memory. */
  info(engine: Handle): string | undefined;
  stats(engine: Handle): string | undefined;
}
