// SPDX-License-Identifier: Apache-2.0
// Questions that tests of native code ask of this process, and scripts that they run in others.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
export const collectGarbage = runInNewContext('gc');

/** The number of this process's threads. */
export const threads = () => readdirSync('/proc/self/task').length;

/**
 * Waits until something holds, which no signal tells.
 * @param {() => boolean} holds
 * @param {string} what
 */
export async function until(holds, what) {
  for (let i = 0; !holds(); i++) {
    assert.ok(i < 2000, what);
    await new Promise((done) => setTimeout(done, 10));
  }
}

/**
 * Runs a script in a process of its own, and resolves to what it printed.
 * @param {string} script
 * @returns {Promise<string>}
 */
export const run = (script) =>
  new Promise((resolve, reject) => {
    const args = ['--input-type=module', '-e', script];
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    execFile(process.execPath, args, { env }, (error, out, err) =>
      error ? reject(new Error(`${error.message} ${error.signal} ${err}`)) : resolve(out),
    );
  });
