// SPDX-License-Identifier: Apache-2.0
// wisp-engine/pipeline as Node imports it.
import { pipelineOf } from './adapters/feature-extraction.js';
import { Embedder } from './node.js';

export { WispError } from './base/errors.js';

export const pipeline = pipelineOf(Embedder.load);
