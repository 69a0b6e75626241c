// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node whose model may lack its cold neurons.
import { serveCold } from './cold-worker.js';
import { listen } from './scope-node.js';

listen(serveCold);
