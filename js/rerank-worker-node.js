// SPDX-License-Identifier: Apache-2.0
// The script of a reranker's worker thread of Node.
import { serveRank } from './engine/rank-engine.js';
import { listen } from './platform/scope-node.js';

listen(serveRank);
