// SPDX-License-Identifier: Apache-2.0
// wisp-engine/engine: one model in one WebAssembly instance.
export { Engine } from './engine/engine.js';
