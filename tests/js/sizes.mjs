// SPDX-License-Identifier: Apache-2.0
// Bytes that pages load.
import { readFileSync } from 'node:fs';
import { brotliCompressSync } from 'node:zlib';
import { ROOT } from './support.mjs';

/** Bytes of files of js/ after brotli. @param {Iterable<string>} names */
export function bytesOf(names) {
  let bytes = 0;
  for (const name of names) bytes += brotliCompressSync(readFileSync(`${ROOT}js/${name}`)).length;
  return bytes;
}

/**
 * The scripts that a page loads, and their bytes after brotli.
 * @param {string[]} entries
 */
export function scriptsOf(...entries) {
  const reached = new Set(entries);
  for (const name of reached) {
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8');
    for (const [, found] of source.matchAll(/from '\.\/([^']+)'/g)) reached.add(found);
  }
  return { reached, bytes: bytesOf(reached) };
}
