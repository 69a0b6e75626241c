// SPDX-License-Identifier: Apache-2.0
// wisp-engine/pipeline as Node imports it.
import { pipelineOf } from './feature-extraction.js';
import { Embedder } from './node.js';

export { WispError } from './errors.js';

export const pipeline = pipelineOf(Embedder.load);
