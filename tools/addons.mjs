// SPDX-License-Identifier: Apache-2.0
// The packages of the addon, one for each platform: node tools/addons.mjs FOLDER TARGET=wisp.node[,wisp]...
// writes FOLDER/TARGET for npm pack. `wisp` is the program. They have no script: npm installs the one whose os, cpu and libc fit. With
// --any-glibc an addon may need this machine's glibc, as build/wisp.node does.
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';

/** @type {Record<string, { os: string[], cpu: string[], libc?: string[] }>} */
export const TARGETS = {
  'linux-x64-gnu': { os: ['linux'], cpu: ['x64'], libc: ['glibc'] },
  'linux-x64-musl': { os: ['linux'], cpu: ['x64'], libc: ['musl'] },
  'linux-arm64-gnu': { os: ['linux'], cpu: ['arm64'], libc: ['glibc'] },
  'linux-arm64-musl': { os: ['linux'], cpu: ['arm64'], libc: ['musl'] },
  'darwin-arm64': { os: ['darwin'], cpu: ['arm64'] },
  'win32-x64': { os: ['win32'], cpu: ['x64'] },
};

/** The glibc of the oldest systems that Node 20 runs on. See src/node/old_glibc.h. */
const MOST_GLIBC = 28;

/**
 * Refuses an addon that needs a newer glibc.
 * @param {string} file
 */
function checkGlibc(file) {
  const versions = readFileSync(file, 'latin1').matchAll(/GLIBC_2\.(\d+)/g);
  const newest = Math.max(...Array.from(versions, ([, minor]) => Number(minor)));
  if (newest > MOST_GLIBC) {
    throw new Error(`${file} needs glibc 2.${newest}: src/node/old_glibc.h lacks a function`);
  }
}

/** @param {string} target */
const nameOf = (target) => `@wisp-engine/${target}`;

/** @param {string} version */
export const optionalDependencies = (version) =>
  Object.fromEntries(Object.keys(TARGETS).map((target) => [nameOf(target), version]));

/** @param {string} name */
const at = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));

/**
 * @param {string} folder
 * @param {string} target
 * @param {string} addon
 * @param {string | undefined} program
 */
function writePackage(folder, target, addon, program) {
  const { version, license, engines } = JSON.parse(readFileSync(at('package.json'), 'utf8'));
  const { os, cpu, libc } = TARGETS[target];
  const manifest = {
    name: nameOf(target),
    version,
    description: `Native code of wisp-engine for ${target}`,
    license,
    main: 'wisp.node',
    files: ['wisp.node', ...(program ? ['wisp'] : []), 'NOTICE'],
    engines,
    os,
    cpu,
    libc,
  };
  const to = `${folder}/${target}`;
  mkdirSync(to, { recursive: true });
  writeFileSync(`${to}/package.json`, `${JSON.stringify(manifest, null, 2)}\n`);
  writeFileSync(
    `${to}/README.md`,
    `# ${manifest.name}\n\n${manifest.description}. Install wisp-engine, which installs this.\n`,
  );
  copyFileSync(addon, `${to}/wisp.node`);
  if (program) {
    copyFileSync(program, `${to}/wisp`);
    chmodSync(`${to}/wisp`, 0o755);
  }
  for (const name of ['LICENSE', 'NOTICE']) copyFileSync(at(name), `${to}/${name}`);
}

if (fileURLToPath(import.meta.url) === argv[1]) {
  const [folder, ...files] = argv.slice(2).filter((arg) => arg !== '--any-glibc');
  for (const file of files) {
    const [target, paths] = file.split('=');
    const [addon, program] = paths.split(',');
    if (!TARGETS[target]) throw new Error(`${target} is not one of ${Object.keys(TARGETS)}`);
    const isChecked = TARGETS[target].libc?.includes('glibc') && !argv.includes('--any-glibc');
    if (isChecked) checkGlibc(addon);
    writePackage(folder, target, addon, program);
  }
}
