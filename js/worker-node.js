// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node.
import { serve } from './engine/worker.js';
import { listen } from './platform/scope-node.js';

listen(serve);
