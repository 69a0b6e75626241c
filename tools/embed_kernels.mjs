// SPDX-License-Identifier: Apache-2.0
// Writes the WebAssembly module of indexes as text into a script: `make wasm` runs it.
//
//     node tools/embed_kernels.mjs build/wasm/wisp-index.wasm js/index/index-kernels.js
import { readFileSync, writeFileSync } from 'node:fs';

const [from, to] = process.argv.slice(2);
const text = readFileSync(from).toString('base64');
const lines = (text.match(/.{1,90}/g) ?? []).map((line) => `  '${line}'`);
writeFileSync(
  to,
  `// SPDX-License-Identifier: Apache-2.0
// The module of wasm/index/index.c, which tools/embed_kernels.mjs writes here in base64.
export const KERNELS =
${lines.join(' +\n')};
`,
);
