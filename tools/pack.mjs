// SPDX-License-Identifier: Apache-2.0
// Writes what the npm package has beside the checkout's files; npm pack runs it.
import { createHash } from 'node:crypto';
import { chmodSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { optionalDependencies } from './addons.mjs';

/** @param {string} name */
const at = (name) => new URL(`../${name}`, import.meta.url);

// The packed manifest names the packages of the addon, which the checkout does without: npm ci would look
// for them in the registry before they are there. `--after`, which npm runs last, takes them out again.
const manifest = JSON.parse(readFileSync(at('package.json'), 'utf8'));
const isAfter = process.argv.includes('--after');
delete manifest.optionalDependencies;
if (!isAfter) manifest.optionalDependencies = optionalDependencies(manifest.version);
writeFileSync(at('package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
if (isAfter) process.exit();

/** @param {string} name */
const hash = (name) =>
  `sha256-${createHash('sha256')
    .update(readFileSync(at(name)))
    .digest('base64')}`;

// TypeScript takes a .d.ts of this package for an ES module's, and refuses it to CommonJS programs.
// Its imports name the copies.
for (const name of [
  'index',
  'generate',
  'hub',
  'cold',
  'convert',
  'threads',
  'text',
  'search',
  'vector-index',
  'langchain',
  'ai',
  'pipeline',
]) {
  const text = String(readFileSync(at(`types/${name}.d.ts`)));
  writeFileSync(at(`types/${name}.d.cts`), text.replaceAll("'./index.js'", "'./index.cjs'"));
}

const hashes = Object.fromEntries(
  [
    'models/wisp-default.gguf',
    'models/wisp-stories.gguf',
    'js/wisp-simd128.wasm',
    'js/wisp-relaxed.wasm',
    'js/wisp-generate-simd128.wasm',
    'js/wisp-generate-relaxed.wasm',
    'js/wisp-threads-simd128.wasm',
    'js/wisp-threads-relaxed.wasm',
    'js/wisp-embed-threads-simd128.wasm',
    'js/wisp-embed-threads-relaxed.wasm',
    'js/wisp-convert.wasm',
    'js/wisp-program.wasm',
  ].map((name) => [name.slice(name.lastIndexOf('/') + 1), hash(name)]),
);
writeFileSync(at('integrity.json'), `${JSON.stringify(hashes, null, 2)}\n`);

// The archive holds the files' modes, which follow the umask of whoever builds it, and linkers make
// modules executable. npm makes its program executable when it
// installs it, so all modes become the same.
for (const entry of ['package.json', 'README.md', 'LICENSE', ...manifest.files]) {
  const path = entry.includes('*') ? dirname(entry) : entry;
  const names = statSync(at(path)).isDirectory()
    ? readdirSync(at(path)).map((name) => `${path}/${name}`)
    : [path];
  for (const name of names) if (statSync(at(name)).isFile()) chmodSync(at(name), 0o644);
}
