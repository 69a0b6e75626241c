// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node that runs the program wisp, whose end is the thread's.
import fs from 'node:fs';
import { isatty } from 'node:tty';
import { workerData } from 'node:worker_threads';
import { ProgramSystem } from './program-system.js';

const { module, args, variables, flags } = workerData;
const surroundings = { fs, pid: process.pid, isTerminal: isatty, exit: process.exit };
// Not while the thread starts: see scope-node.js.
setImmediate(() => new ProgramSystem(args, variables, flags, surroundings).run(module));
