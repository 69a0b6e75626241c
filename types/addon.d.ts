// SPDX-License-Identifier: Apache-2.0

/** An engine of the addon. */
export interface Handle {
  readonly isEngine: true;
}

/** A file that an addon reads. It is open as long as something has this object and an embedder uses it. */
export interface ModelFile {
  descriptor: number;
  size: number;
  /** Throws where the file was written to since it was opened. */
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
  /** Return JSON; undefined where there is no memory. */
  info(engine: Handle): string | undefined;
  stats(engine: Handle): string | undefined;
}
