// SPDX-License-Identifier: Apache-2.0
// Runs transformers.js in a worker. The first message is { model, threads, dtype }, all others are
// { texts, settings }. The package's bundle for pages has no types.
// @ts-expect-error
import * as transformers from '../../node_modules/@huggingface/transformers/dist/transformers.min.js';
import { answerWith } from './ask.mjs';
import { peerOf } from './transformers_batches.mjs';

const { env, pipeline } = transformers;

/** Serves the package's default WebAssembly runtime from this checkout instead of from a CDN. */
const RUNTIME = '/bench/node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.asyncify';

/** @type {import('../measure.mjs').Peer} */
let peer;

/** @param {{ model: string, threads: number, dtype: 'fp32' | 'q8' }} options */
async function open({ model, threads, dtype }) {
  const cut = model.lastIndexOf('/');
  env.allowLocalModels = true;
  env.allowRemoteModels = false;
  env.localModelPath = model.slice(0, cut + 1);
  const { wasm } = /** @type {any} */ (env.backends.onnx);
  wasm.wasmPaths = { mjs: `${RUNTIME}.mjs`, wasm: `${RUNTIME}.wasm` };
  wasm.numThreads = threads;
  const pipe = await pipeline('feature-extraction', model.slice(cut + 1), {
    dtype,
    device: 'wasm',
  });
  peer = peerOf(pipe, { 'transformers.js': env.version, threads: wasm.numThreads });
  return { about: peer.about };
}

answerWith(async ({ texts, settings, ...options }) =>
  texts ? { rows: await peer.embed(texts, settings) } : open(options),
);
