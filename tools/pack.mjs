// SPDX-License-Identifier: Apache-2.0
// node tools/pack.mjs FOLDER: writes the npm package into a new folder, for npm pack and npm publish. Its JavaScript is
// minified, and it has what the checkout lacks. The checkout stays as it is.
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionalDependencies } from './addons.mjs';
import { writeCommonJs } from './common-js.mjs';
import { minified, scriptsIn } from './minify.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const folder = process.argv[2];
if (!folder) throw new Error('give the folder to write the package into');

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
delete manifest.scripts;
delete manifest.devDependencies;

/**
 * The names of an entry of package.json's "files": a file, a folder, or the files of a folder that end in one way.
 * @param {string} entry
 */
function namesOf(entry) {
  if (!entry.includes('*')) return [entry];
  const [place, end] = entry.split('*');
  const names = readdirSync(join(ROOT, place)).filter((name) => name.endsWith(end));
  return names.map((name) => place + name);
}

rmSync(folder, { recursive: true, force: true });
const written = ['integrity.json'];
const entries = manifest.files.filter((/** @type {string} */ name) => !written.includes(name));
for (const name of ['README.md', 'LICENSE', ...entries.flatMap(namesOf)]) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  cpSync(join(ROOT, name), join(folder, name), { recursive: true });
}

/** @param {string} name @param {string} text */
const write = (name, text) => writeFileSync(join(folder, name), text);

await writeCommonJs(join(folder, 'js'));
for (const name of scriptsIn(join(folder, 'js')))
  write(`js/${name}`, await minified(name, readFileSync(join(ROOT, 'js', name), 'utf8')));

// The checkout does without the packages of the addon: npm ci would look for them in the registry before they are there.
manifest.optionalDependencies = optionalDependencies(manifest.version);
write('package.json', `${JSON.stringify(manifest, null, 2)}\n`);

/** @param {string} name */
const hash = (name) =>
  `sha256-${createHash('sha256')
    .update(readFileSync(join(folder, name)))
    .digest('base64')}`;

// TypeScript takes a .d.ts of this package for an ES module's, and refuses it to CommonJS programs: these get the copies
// that "exports" names. Imports of copies name copies.
const exported = JSON.stringify(manifest.exports);
for (const [, name] of exported.matchAll(/"\.\/types\/([\w-]+)\.d\.cts"/g)) {
  const text = readFileSync(join(folder, `types/${name}.d.ts`), 'utf8');
  write(`types/${name}.d.cts`, text.replaceAll("'./index.js'", "'./index.cjs'"));
}

/** The hashes of the files of a folder that end so. @param {string} place @param {string} end */
const hashesOf = (place, end) =>
  readdirSync(join(folder, place))
    .filter((name) => name.endsWith(end))
    .sort()
    .map((name) => [name, hash(`${place}/${name}`)]);
const hashes = Object.fromEntries([...hashesOf('models', '.gguf'), ...hashesOf('js', '.wasm')]);
write('integrity.json', `${JSON.stringify(hashes, null, 2)}\n`);

// The archive holds the files' modes, which follow the umask of whoever builds it, and linkers make modules executable.
// npm makes its program executable when it installs it, so all modes become the same.
for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
  if (entry.isFile()) chmodSync(join(entry.parentPath, entry.name), 0o644);
