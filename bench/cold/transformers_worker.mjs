// SPDX-License-Identifier: Apache-2.0
// transformers.js in a worker, as its documentation says: the first message is { model }, others are { text }.
// The package's bundle, beside this file on the server, has no types.
// @ts-expect-error
import { env, pipeline } from './transformers.min.js';

/** @type {any} */
let pipe;

onmessage = async ({ data: { model, text } }) => {
  if (text !== undefined) {
    const tensor = await pipe(text, { pooling: 'mean', normalize: true });
    return postMessage(tensor.data);
  }
  env.allowLocalModels = true;
  env.allowRemoteModels = false;
  env.localModelPath = '/models/';
  const { wasm } = env.backends.onnx;
  const runtime = new URL('/cold/ort-wasm-simd-threaded.asyncify', location.href).href;
  wasm.wasmPaths = { mjs: `${runtime}.mjs`, wasm: `${runtime}.wasm` };
  wasm.numThreads = 1;
  pipe = await pipeline('feature-extraction', model, { dtype: 'q8', device: 'wasm' });
  postMessage({ 'transformers.js': env.version, dtype: 'q8', threads: wasm.numThreads });
};
