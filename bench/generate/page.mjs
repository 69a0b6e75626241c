// SPDX-License-Identifier: Apache-2.0
// The part of the benchmark of generating that runs in a page: wisp, or wllama (llama.cpp).
import { Generator } from '../../js/generate-browser.js';

/**
 * @typedef {object} Written
 * @property {number} firstMs from the call to the first token
 * @property {number} promptTokens
 * @property {number} tokens
 * @property {number} perSecond tokens after the first one
 */

/**
 * @typedef {object} Peer
 * @property {{ threads: number }} about
 * @property {(prompt: string, tokens: number) => Promise<Written>} write
 */

const WLLAMA = '/bench/node_modules/@wllama/wllama';

/**
 * Times the pieces of a text.
 * @param {() => AsyncIterable<unknown>} write begins it
 */
async function time(write) {
  const start = performance.now();
  let first = 0;
  let count = 0;
  let last = start;
  const reader = write()[Symbol.asyncIterator]();
  while (!(await reader.next()).done) {
    last = performance.now();
    first ||= last;
    count++;
  }
  return { firstMs: first - start, restSeconds: (last - first) / 1000, count };
}

/** @type {Record<string, (model: string, threads: number) => Promise<Peer>>} */
export const peers = {
  async wisp(model, wanted) {
    const generator = await Generator.load(model, { threads: wanted });
    const { kernels, compute, build, threads } = generator.info();
    return {
      about: { kernels, compute, build, threads },
      async write(prompt, maxTokens) {
        /** @type {any} */
        let writing;
        const { firstMs, restSeconds } = await time(() => {
          writing = generator.generate(prompt, { maxTokens });
          return writing.tokens();
        });
        const { promptTokens, tokens } = await writing.result();
        return { firstMs, promptTokens, tokens, perSecond: (tokens - 1) / restSeconds };
      },
    };
  },

  async wllama(model, threads) {
    const { Wllama } = await import(`${WLLAMA}/esm/index.js`);
    const wllama = new Wllama(
      { default: `${WLLAMA}/esm/wasm/wllama.wasm` },
      { suppressNativeLog: true },
    );
    const blob = await (await fetch(model)).blob();
    await wllama.loadModel([blob], {
      n_threads: threads,
      n_gpu_layers: 0,
      n_ctx: 2048,
      warmup: false,
    });
    const { version } = await (await fetch(`${WLLAMA}/package.json`)).json();
    return {
      about: { wllama: version, threads: wllama.getNumThreads() },
      async write(prompt, max_tokens) {
        /** @type {any} */
        let end;
        async function* write() {
          const options = { prompt, max_tokens, temperature: 0, stream: true };
          for await (const chunk of await wllama.createCompletion(options)) {
            if (chunk.timings) end = chunk.timings;
            yield chunk;
          }
        }
        const { firstMs, restSeconds, count } = await time(write);
        const tokens = end?.predicted_n ?? count;
        return {
          firstMs,
          promptTokens: end?.prompt_n ?? 0,
          tokens,
          perSecond: (tokens - 1) / restSeconds,
        };
      },
    };
  },
};
