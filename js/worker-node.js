// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node.
import { listen } from './scope-node.js';
import { serve } from './worker.js';

listen(serve);
