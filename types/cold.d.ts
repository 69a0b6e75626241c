// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold, for TypeScript 5.2 and later. A page imports it for the option cold of Embedder.load.
import type { ModelSource } from './index.js';

export { WispError } from './index.js';

/** The numbers whose sum is the state of a neuron in stats().cold.layers. */
export const NEURON: { readonly here: 1; readonly coming: 2; readonly needed: 4; readonly skipped: 8 };

/** A model by range that wisp keeps. */
export interface KeptModel {
  url: string;
  /** The SHA-256 of the file's header, which has those of all other bytes. */
  sha256: string;
  /** Bytes of the whole file. */
  size: number;
  /** Bytes of it that are kept. */
  bytes: number;
  /** Whether all of it is. */
  complete: boolean;
}

/**
 * Files of models by range, as far as they have come: in browsers in OPFS, IndexedDB or the page's memory, in Node in the
 * folder `chunks` of WISP_CACHE, else of XDG_CACHE_HOME/wisp, else of ~/.cache/wisp.
 */
export const cache: {
  list(): Promise<KeptModel[]>;
  /** Deletes the model of a URL, or all. Resolves to the bytes that are free now. */
  delete(url?: Extract<ModelSource, string> | { readonly href: string }): Promise<number>;
  /** Asks the browser not to drop what this origin keeps when its disk is full. Resolves to whether it will. */
  persist(): Promise<boolean>;
};
