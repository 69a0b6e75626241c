// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node whose model may lack its cold neurons, and of those that help it.
import { startHelperOf } from './platform/helpers-node.js';
import { listen } from './platform/scope-node.js';
import { serveCold } from './ranges/cold-worker.js';

listen((post) => serveCold(post, startHelperOf(import.meta.url)));
