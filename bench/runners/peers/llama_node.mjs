// SPDX-License-Identifier: Apache-2.0
// Runs llama.cpp through node-llama-cpp's prebuilt library for this CPU. It takes one text a call.
// Several threads can split each text, or each thread can have a context and texts of its own.
import { LlamaLogLevel, getLlama } from 'node-llama-cpp';

/**
 * @param {{ model: string, threads: number }} options
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function open({ model: modelPath, threads }) {
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    skipDownload: true,
    maxThreads: threads,
    logLevel: LlamaLogLevel.error,
  });
  const model = await llama.loadModel({ modelPath });
  const sharing = await model.createEmbeddingContext({ threads });
  /** @type {typeof sharing[]} */
  const alone = [];
  return {
    about: { 'llama.cpp': llama.llamaCppRelease.release, system: llama.systemInfo },
    choices: (texts) => [{ contexts: 1 }, ...(many(texts, threads) ? [{ contexts: threads }] : [])],
    async embed(texts, { contexts }) {
      while (contexts > 1 && alone.length < contexts) {
        alone.push(await model.createEmbeddingContext({ threads: 1 }));
      }
      return embedWith(contexts > 1 ? alone : [sharing], texts);
    },
  };
}

/**
 * @param {string[]} texts
 * @param {number} threads
 */
const many = (texts, threads) => threads > 1 && texts.length > 1;

/**
 * Lets every context take the next text as soon as it has finished the last one.
 * @param {import('node-llama-cpp').LlamaEmbeddingContext[]} contexts
 * @param {string[]} texts
 */
async function embedWith(contexts, texts) {
  /** @type {Float32Array[]} */
  const rows = [];
  let next = 0;
  await Promise.all(
    contexts.map(async (context) => {
      while (next < texts.length) {
        const at = next++;
        const { vector } = await context.getEmbeddingFor(texts[at]);
        rows[at] = normalised(vector);
      }
    }),
  );
  const all = new Float32Array(texts.length * rows[0].length);
  rows.forEach((row, i) => all.set(row, i * row.length));
  return all;
}

/** @param {readonly number[]} vector */
function normalised(vector) {
  const length = Math.hypot(...vector);
  return Float32Array.from(vector, (value) => value / length);
}
