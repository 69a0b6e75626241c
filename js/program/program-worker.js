// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node that runs the program wisp, whose end is the thread's.
import fs from 'node:fs';
import { isatty } from 'node:tty';
import { parentPort, workerData } from 'node:worker_threads';
import { FLAG, ProgramSystem } from './program-system.js';

const { module, args, variables, flags, line } = workerData;

/** @param {string} prompt @returns {Uint8Array | undefined} what the main thread has read; undefined at the end */
function readLine(prompt) {
  const waits = -2;
  Atomics.store(flags, FLAG.typed, waits);
  parentPort?.postMessage({ prompt });
  Atomics.wait(flags, FLAG.typed, waits);
  const length = Atomics.load(flags, FLAG.typed);
  return length < 0 ? undefined : line.subarray(0, length);
}

const { pid, exit } = process;
const surroundings = { fs, pid, user: process.geteuid?.(), isTerminal: isatty, exit, readLine };
// Not while the thread starts: see scope-node.js.
setImmediate(() => new ProgramSystem(args, variables, flags, surroundings).run(module));
