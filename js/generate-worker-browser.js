// SPDX-License-Identifier: Apache-2.0
// The script of a generator's Web Worker, and of those that help it.
import { startHelper } from './helpers-browser.js';
import { listen } from './scope-browser.js';
import { serveText } from './text-worker.js';

listen((post) => serveText(post, startHelper));
