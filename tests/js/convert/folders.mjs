// SPDX-License-Identifier: Apache-2.0
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns the files of a model's folder by their paths in it.
 * @param {string} folder
 * @returns {Record<string, Buffer<ArrayBuffer>>}
 */
export function filesOf(folder) {
  const names = readdirSync(folder, { recursive: true }).map(String);
  const files = names.filter((name) => statSync(join(folder, name)).isFile());
  return Object.fromEntries(
    files.map((name) => [
      name.replaceAll('\\', '/'),
      Buffer.from(new Uint8Array(readFileSync(join(folder, name)))),
    ]),
  );
}
