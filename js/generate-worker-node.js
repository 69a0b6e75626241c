// SPDX-License-Identifier: Apache-2.0
// The script of a generator's worker thread of Node, and of those that help it.
import { serveText } from './engine/text-worker.js';
import { startHelperOf } from './platform/helpers-node.js';
import { listen } from './platform/scope-node.js';

listen((post) => serveText(post, startHelperOf(import.meta.url)));
