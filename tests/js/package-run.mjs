// SPDX-License-Identifier: Apache-2.0
// Runs the package's program, js/cli.js, and installs its native code as npm does.
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ADDON, PROGRAM } from './support.mjs';

/**
 * Runs the program to its end.
 * @param {string} cli the path of cli.js
 * @param {string[]} args
 * @param {object} [how]
 * @param {string} [how.input]
 * @param {NodeJS.ProcessEnv} [how.env]
 * @param {string[]} [how.node] options of Node
 */
export function runCli(cli, args, { input = '', env = process.env, node = [] } = {}) {
  const run = spawnSync(process.execPath, [...node, cli, ...args], {
    input,
    env,
    maxBuffer: 1 << 28,
  });
  return { code: run.status, bytes: run.stdout, out: String(run.stdout), err: String(run.stderr) };
}

/**
 * Makes the package of native code for this platform in a folder, which NODE_PATH names to require().
 * @param {string} packages the folder
 * @param {{ hasProgram: boolean }} what whether the package has the program wisp beside the addon
 */
export function installNative(packages, { hasProgram }) {
  const place = join(packages, '@wisp-engine', `${process.platform}-${process.arch}-gnu`);
  mkdirSync(place, { recursive: true });
  copyFileSync(ADDON, join(place, 'wisp.node'));
  writeFileSync(join(place, 'package.json'), '{ "main": "wisp.node" }');
  if (!hasProgram) return;
  copyFileSync(PROGRAM, join(place, 'wisp'));
  chmodSync(join(place, 'wisp'), 0o755);
}
