// SPDX-License-Identifier: Apache-2.0
// A program for any Node or Bun: prints the rows of each WebAssembly module that runs there, with the option
// `portable`, in hexadecimal. Its arguments are the files with the texts, as JSON, and with the model.
import { readFileSync } from 'node:fs';
import { Engine } from '../../../js/engine/engine.js';
import { pickBuild } from '../../../js/calls/load.js';

const [texts, model] = process.argv.slice(2);
for (const build of pickBuild() === 'relaxed' ? ['relaxed', 'simd128'] : ['simd128']) {
  const url = new URL(`../../../js/wisp-${build}.wasm`, import.meta.url);
  const module = await WebAssembly.compile(readFileSync(url));
  const engine = await Engine.open(module, readFileSync(model), { portable: true });
  const rows = engine.embed(JSON.parse(String(readFileSync(texts))));
  const { kernels } = engine.info();
  console.log(JSON.stringify({ build, kernels, rows: Buffer.from(rows.buffer).toString('hex') }));
}
