// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker with threads, and of those that help it.
import { serveTeam } from './engine/threads-worker.js';
import { startHelper } from './platform/helpers-browser.js';
import { listen } from './platform/scope-browser.js';

listen((post) => serveTeam(post, startHelper));
