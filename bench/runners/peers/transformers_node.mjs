// SPDX-License-Identifier: Apache-2.0
// Runs transformers.js in Node, if it uses onnxruntime's native library.
import { basename, dirname, resolve } from 'node:path';
import { env, pipeline } from '@huggingface/transformers';
import { peerOf } from './transformers_batches.mjs';

/**
 * @param {{ model: string, threads: number, dtype: string }} options
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function open({ model, threads, dtype }) {
  env.allowRemoteModels = false;
  env.localModelPath = dirname(resolve(model));
  const pipe = await pipeline('feature-extraction', basename(model), {
    dtype: /** @type {'fp32' | 'q8'} */ (dtype),
    device: 'cpu',
    session_options: { intraOpNumThreads: threads, interOpNumThreads: 1 },
  });
  return peerOf(pipe, { 'transformers.js': env.version });
}
