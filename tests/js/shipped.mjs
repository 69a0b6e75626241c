// SPDX-License-Identifier: Apache-2.0
// The package's scripts as it ships them, and bytes that pages load.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { minified, scriptsIn } from '../../tools/minify.mjs';
import { ROOT } from './support.mjs';

/** The package's scripts, minified, by their paths in js. @type {Map<string, string>} */
export const shipped = new Map();
for (const name of scriptsIn(`${ROOT}js`))
  shipped.set(name, await minified(name, readFileSync(`${ROOT}js/${name}`, 'utf8')));

/** Bytes of files of js/ after brotli, as shipped. @param {Iterable<string>} names */
export function bytesOf(names) {
  let bytes = 0;
  for (const name of names) {
    const content = shipped.get(name) ?? readFileSync(`${ROOT}js/${name}`);
    bytes += brotliCompressSync(content).length;
  }
  return bytes;
}

/**
 * The scripts that a page loads, and their bytes after brotli.
 * @param {string[]} entries
 */
export function scriptsOf(...entries) {
  const reached = new Set(entries);
  for (const name of reached) {
    for (const [, found] of String(shipped.get(name)).matchAll(/\bfrom"(\.[^"]+)"/g))
      reached.add(join(dirname(name), found));
  }
  return { reached, bytes: bytesOf(reached) };
}

/**
 * Writes the package into a folder.
 * @param {string} folder a new one
 */
export function writePackage(folder) {
  execFileSync(process.execPath, [`${ROOT}tools/pack.mjs`, folder]);
}
