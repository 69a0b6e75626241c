// SPDX-License-Identifier: Apache-2.0
// wisp-engine/hub in browsers, for TypeScript 5.2 and later.
import type { HubOptions } from './hub.js';
import type { ModelSource } from './index.js';

export * from './hub.js';

export type UrlOptions = Pick<HubOptions, 'offline' | 'signal' | 'onProgress'>;

/**
 * Fetches a model from any URL, and keeps it in the browser's store. The next time the server is only
 * asked whether it is still the same (ETag, else Last-Modified); if it does not say, or cannot be
 * reached, the kept one is taken.
 */
export function fromUrl(url: Extract<ModelSource, string> | { readonly href: string }, options?: UrlOptions): Promise<ModelSource>;
