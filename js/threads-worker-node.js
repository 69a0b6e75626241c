// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node that has threads of its own, and of those.
import { serveTeam } from './engine/threads-worker.js';
import { startHelperOf } from './platform/helpers-node.js';
import { listen } from './platform/scope-node.js';

listen((post) => serveTeam(post, startHelperOf(import.meta.url)));
