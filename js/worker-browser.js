// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker.
// Imports of the imports below.
import './base/sha256.js';
import './files/source.js';
import { listen } from './platform/scope-browser.js';
import { serve } from './engine/worker.js';

listen(serve);
