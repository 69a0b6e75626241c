// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node that runs the program wisp.
import { workerData } from 'node:worker_threads';
import { ProgramSystem } from './program-system.js';

const { module, args, variables, flags } = workerData;
// Not while the thread starts: see scope-node.js.
setImmediate(() => new ProgramSystem(args, variables, flags).run(module));
