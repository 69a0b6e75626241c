// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node whose model may lack its cold neurons, and of those that help it.
import { serveCold } from './cold-worker.js';
import { startHelperOf } from './helpers-node.js';
import { listen } from './scope-node.js';

listen((post) => serveCold(post, startHelperOf(import.meta.url)));
