// SPDX-License-Identifier: Apache-2.0
// The script of a generator's worker thread of Node.
import { listen } from './scope-node.js';
import { serveText } from './text-worker.js';

listen(serveText);
