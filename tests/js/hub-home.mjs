// SPDX-License-Identifier: Apache-2.0
// A server with the Hub's paths, and for each test a home with a cache of its own.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach } from 'node:test';
import { promisify } from 'node:util';
import { fromHub } from '../../js/hub-node.js';
import { serveHub, sha256 } from './hub-server.mjs';
import { ROOT, smallModel } from './support.mjs';

export const run = promisify(execFile);
export const model = readFileSync(smallModel());
export const HASH = sha256(model);
/** The folder of o/m in the cache. */
export const FOLDER = 'models--o--m';

export const hub = await serveHub();
/** @type {string} */
export let home;
/** @type {string} */
export let cacheDir;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'wisp-hub-'));
  cacheDir = join(home, 'hub');
  hub.forget();
  hub.fault = hub.token = undefined;
  hub.headers = {};
});
after(() => hub.close());

/** @param {string} name @param {import('../../types/hub.js').HubOptions} [options] */
export const get = (name, options) =>
  fromHub(name, { endpoint: hub.origin, cacheDir, token: '', ...options });

/** @param {string} name @param {import('../../types/hub.js').HubOptions} [options] */
export const fail = (name, options) => get(name, options).then(assert.fail, (error) => error);

/** The blobs that are there, and partial ones. */
export const blobs = () => readdirSync(join(cacheDir, FOLDER, 'blobs'));

/** @param {Record<string, string>} env @param {string} script */
export async function node(env, script) {
  const args = ['--input-type=module', '-e', script];
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(HF_|HUGGING|TRANSFORMERS|XDG_)/.test(name)),
  );
  return (await run(process.execPath, args, { cwd: ROOT, env: { ...clean, ...env } })).stdout;
}
