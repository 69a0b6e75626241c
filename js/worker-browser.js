// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker.
import { listen } from './scope-browser.js';
import { serve } from './worker.js';

listen(serve);
