// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker whose model may lack its cold neurons, and of those that help it.
import { serveCold } from './cold-worker.js';
import { startHelper } from './helpers-browser.js';
import { listen } from './scope-browser.js';

listen((post) => serveCold(post, startHelper));
