// SPDX-License-Identifier: Apache-2.0
// The script of a generator's Web Worker.
import { listen } from './scope-browser.js';
import { serveText } from './text-worker.js';

listen(serveText);
