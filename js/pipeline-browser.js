// SPDX-License-Identifier: Apache-2.0
// wisp-engine/pipeline as a browser imports it.
import { Embedder } from './browser.js';
import { pipelineOf } from './feature-extraction.js';

export { WispError } from './errors.js';

export const pipeline = pipelineOf(Embedder.load);
