// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node that has threads of its own, and of those.
import { startHelperOf } from './helpers-node.js';
import { listen } from './scope-node.js';
import { serveTeam } from './threads-worker.js';

listen((post) => serveTeam(post, startHelperOf(import.meta.url)));
