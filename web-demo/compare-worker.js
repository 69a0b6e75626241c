// SPDX-License-Identifier: Apache-2.0
// transformers.js in a worker. The first message is { library, models, how, threads }, others are { texts, batch }.

/** @type {any} */
let pipe;

/** @param {{ library: string, models: string | null, how: { dtype: string, device: string }, threads: number }} wanted */
async function open({ library, models, how, threads }) {
  const { env, pipeline } = await import(library);
  if (models !== null) {
    env.allowRemoteModels = false;
    env.allowLocalModels = true;
    env.localModelPath = models;
    env.backends.onnx.wasm.wasmPaths = new URL('./', library).href;
  }
  env.backends.onnx.wasm.numThreads = threads;
  pipe = await pipeline('feature-extraction', 'Xenova/all-MiniLM-L6-v2', how);
  return { version: env.version };
}

/** @param {{ texts: string[], batch: number }} wanted */
async function embed({ texts, batch }) {
  const rows = [];
  for (let i = 0; i < texts.length; i += batch) {
    const { data } = await pipe(texts.slice(i, i + batch), { pooling: 'mean', normalize: true });
    rows.push(data);
  }
  return { rows };
}

addEventListener('message', async ({ data }) => {
  try {
    postMessage(await (data.library ? open(data) : embed(data)));
  } catch (error) {
    postMessage({ error: String(error) });
  }
});
