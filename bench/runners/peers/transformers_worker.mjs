// SPDX-License-Identifier: Apache-2.0
// transformers.js in a worker: first { model, threads, dtype }, then { texts, settings }.
// Its bundle for pages has no types beside it.
// @ts-expect-error
import * as transformers from '../../node_modules/@huggingface/transformers/dist/transformers.min.js';
import { answerWith } from './ask.mjs';
import { peerOf } from './transformers_batches.mjs';

const { env, pipeline } = transformers;

/** The WebAssembly runtime that the package takes by default, from here instead of from a CDN. */
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
