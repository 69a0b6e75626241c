// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker with threads, and of those that help it.
import { startHelper } from './helpers-browser.js';
import { listen } from './scope-browser.js';
import { serveTeam } from './threads-worker.js';

listen((post) => serveTeam(post, startHelper));
