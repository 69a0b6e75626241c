// SPDX-License-Identifier: Apache-2.0
// wisp-engine/threads, for TypeScript 5.2 and later. A page imports it for the option threads of Embedder.load.
export { WispError } from './index.js';
