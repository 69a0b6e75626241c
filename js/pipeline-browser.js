// SPDX-License-Identifier: Apache-2.0
// wisp-engine/pipeline as a browser imports it.
import { pipelineOf } from './adapters/feature-extraction.js';
import { Embedder } from './browser.js';

export { WispError } from './base/errors.js';

export const pipeline = pipelineOf(Embedder.load);
