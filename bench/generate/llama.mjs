// SPDX-License-Identifier: Apache-2.0
// Times llama.cpp on a prompt, in a process of its own:
//   node bench/generate/llama.mjs MODEL THREADS TOKENS CONTEXT < PROMPT
// Prints a line of JSON. Memory is what the model and its context add to the process at its peak.
import { readFileSync } from 'node:fs';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const [modelPath, threads, tokens, contextSize] = process.argv.slice(2);
const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error, maxThreads: Number(threads) }); // prettier-ignore
const before = peak();
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const context = await model.createContext({
  contextSize: Number(contextSize),
  threads: Number(threads),
  batchSize: 512,
});
const beginning = model.tokens.bos === null ? [] : [model.tokens.bos];
const prompt = [...beginning, ...model.tokenize(readFileSync(0, 'utf8'))];
const start = performance.now();
let first = 0;
let count = 0;
for await (const token of context
  .getSequence()
  .evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
  first ||= performance.now();
  if (token === undefined || ++count >= Number(tokens)) break;
}
const end = performance.now();
console.log(
  JSON.stringify({
    promptTokens: prompt.length,
    promptPerSecond: prompt.length / ((first - start) / 1000),
    firstMs: first - start,
    perSecond: (count - 1) / ((end - first) / 1000),
    peakMB: (peak() - before) * 1.024e-3, // of KiB
  }),
);
process.exit(0); // llama.cpp's threads need not end first
