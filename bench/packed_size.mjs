// SPDX-License-Identifier: Apache-2.0
// Prints the sizes of files as brotli packs them, as a JSON array: node packed_size.mjs FILE...
import { readFileSync } from 'node:fs';
import { brotliCompressSync, constants } from 'node:zlib';

const params = {
  [constants.BROTLI_PARAM_QUALITY]: 9,
  [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
};
const sizes = process.argv
  .slice(2)
  .map((path) => brotliCompressSync(readFileSync(path), { params }).length);
console.log(JSON.stringify(sizes));
