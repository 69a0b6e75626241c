// SPDX-License-Identifier: Apache-2.0
// Embeds the lines of a file several times with a module of wisp, on one thread, and prints the kernel set and the least
// seconds that the named stages took together, as JSON: node pass.mjs MODEL TEXTS MODULE ROUNDS STAGE,STAGE...
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Embedder } from '../../js/node.js';

const [model, file, module, rounds, stages] = process.argv.slice(2);
const texts = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
const embedder = await Embedder.load(resolve(model), {
  workers: 0,
  backend: 'wasm',
  wasm: resolve(module),
});

/** Returns the seconds that the stages took so far. */
const spent = () => {
  const { stageSeconds } = embedder.stats();
  return stages.split(',').reduce((sum, stage) => sum + stageSeconds[stage], 0);
};

await embedder.embed(texts); // V8 compiles the functions for speed while these run
let seconds = Infinity;
for (let round = 0; round < Number(rounds); round++) {
  const before = spent();
  await embedder.embed(texts);
  seconds = Math.min(seconds, spent() - before);
}
console.log(JSON.stringify({ kernels: embedder.info().kernels, seconds }));
await embedder.close();
