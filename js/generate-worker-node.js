// SPDX-License-Identifier: Apache-2.0
// The script of a generator's worker thread of Node, and of those that help it.
import { startHelperOf } from './helpers-node.js';
import { listen } from './scope-node.js';
import { serveText } from './text-worker.js';

listen((post) => serveText(post, startHelperOf(import.meta.url)));
