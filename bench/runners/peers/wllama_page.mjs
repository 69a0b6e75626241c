// SPDX-License-Identifier: Apache-2.0
// Runs wllama (llama.cpp) in a page, if it starts a worker by itself. It gets one text a call,
// because its createEmbedding computes a wrong vector for one of several texts.
// @ts-expect-error the package's types re-export from files that it leaves out
import { Wllama } from '../../node_modules/@wllama/wllama/esm/index.js';

const PACKAGE = '/bench/node_modules/@wllama/wllama';
const LONGEST = 256;

/**
 * @param {{ model: string, threads: number }} options
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function open({ model: url, threads }) {
  const wllama = new Wllama(
    { default: `${PACKAGE}/esm/wasm/wllama.wasm` },
    { suppressNativeLog: true },
  );
  const model = await fetch(url).then((response) => response.blob());
  await wllama.loadModel([model], {
    embeddings: true,
    pooling_type: 'LLAMA_POOLING_TYPE_MEAN',
    n_threads: threads,
    n_gpu_layers: 0,
    n_ctx: LONGEST,
    n_batch: LONGEST,
    n_ubatch: LONGEST,
    n_parallel: 1,
    warmup: false,
  });
  const { version } = await fetch(`${PACKAGE}/package.json`).then((response) => response.json());
  return {
    about: { wllama: version, threads: wllama.getNumThreads() },
    choices: () => [{}],
    embed: (texts) => embedEach(wllama, texts),
  };
}

/**
 * @param {any} wllama
 * @param {string[]} texts
 */
async function embedEach(wllama, texts) {
  let rows = new Float32Array(0);
  for (const [i, input] of texts.entries()) {
    const { data } = await wllama.createEmbedding({ input });
    const row = /** @type {number[]} */ (data[0].embedding);
    if (i === 0) rows = new Float32Array(texts.length * row.length);
    rows.set(row, i * row.length);
  }
  return rows;
}
