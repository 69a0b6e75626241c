// SPDX-License-Identifier: Apache-2.0
// wisp-engine/convert in browsers, for TypeScript 5.2 and later.
import type { ConvertOptions, ConvertSource } from './convert.js';
import type { ModelSource } from './index.js';

export { WispError } from './index.js';
export type { ConvertOptions, ConvertProgress, ConvertSettings, ConvertSource } from './convert.js';

/**
 * Converts a model to a GGUF file, which has the bytes that `wisp convert` writes. Resolves to a Blob, for
 * Embedder.load, or to be stored. In files of its own, so that pages that do not convert load none of it.
 */
export function convert(source: ConvertSource, options?: ConvertOptions): Promise<ModelSource & { readonly size: number }>;
