// SPDX-License-Identifier: Apache-2.0
// Writes what the npm package has beside the checkout's files; npm pack runs it.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

/** @param {string} name */
const at = (name) => new URL(`../${name}`, import.meta.url);

/** @param {string} name */
const hash = (name) =>
  `sha256-${createHash('sha256')
    .update(readFileSync(at(name)))
    .digest('base64')}`;

// TypeScript takes a .d.ts of this package for an ES module's, and refuses it to CommonJS programs.
writeFileSync(at('types/index.d.cts'), readFileSync(at('types/index.d.ts')));

const hashes = Object.fromEntries(
  ['models/wisp-default.gguf', 'js/wisp-simd128.wasm', 'js/wisp-relaxed.wasm'].map((name) => [
    name.slice(name.lastIndexOf('/') + 1),
    hash(name),
  ]),
);
writeFileSync(at('integrity.json'), `${JSON.stringify(hashes, null, 2)}\n`);
