// SPDX-License-Identifier: Apache-2.0
// Times a Generator in Node on a prompt, in a process of its own:
//   node bench/generate/node.mjs MODEL THREADS TOKENS native|wasm [OPTION=VALUE]... < PROMPT
// Native code is build/wisp.node.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Generator } from '../../js/generate-node.js';

const [model, threads, tokens, backend, ...options] = process.argv.slice(2);
const peak = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
const addon = fileURLToPath(new URL('../../build/wisp.node', import.meta.url));
const before = peak();
const loading = performance.now();
const generator = await Generator.load(model, {
  threads: Number(threads),
  ...Object.fromEntries(options.map((option) => option.split('='))),
  ...(backend === 'native' ? { addon } : { backend: 'wasm' }),
});
const start = performance.now();
let first = 0;
const writing = generator.generate(readFileSync(0, 'utf8'), { maxTokens: Number(tokens) });
for await (const { id } of writing.tokens()) if (id >= 0) first ||= performance.now();
const end = performance.now();
const { promptTokens, tokens: count } = await writing.result();
const { kernels } = generator.info();
console.log(
  JSON.stringify({
    kernels,
    loadMs: start - loading,
    promptTokens,
    promptPerSecond: promptTokens / ((first - start) / 1000),
    firstMs: first - start,
    perSecond: (count - 1) / ((end - first) / 1000),
    peakMB: (peak() - before) * 1.024e-3, // of KiB
  }),
);
await generator.close();
