// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold, for TypeScript 5.2 and later. A page imports it for the option cold of Embedder.load.
export { WispError } from './index.js';
