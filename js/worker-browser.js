// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker.
// Imports of the imports below.
import './sha256.js';
import './source.js';
import { listen } from './scope-browser.js';
import { serve } from './worker.js';

listen(serve);
