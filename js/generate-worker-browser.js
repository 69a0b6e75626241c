// SPDX-License-Identifier: Apache-2.0
// The script of a generator's Web Worker, and of those that help it.
import { serveText } from './engine/text-worker.js';
import { startHelper } from './platform/helpers-browser.js';
import { listen } from './platform/scope-browser.js';

listen((post) => serveText(post, startHelper));
