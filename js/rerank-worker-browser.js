// SPDX-License-Identifier: Apache-2.0
// The script of a reranker's Web Worker.
import { serveRank } from './engine/rank-engine.js';
import { listen } from './platform/scope-browser.js';

listen(serveRank);
