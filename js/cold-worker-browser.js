// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker whose model may lack its cold neurons, and of those that help it.
import { startHelper } from './platform/helpers-browser.js';
import { listen } from './platform/scope-browser.js';
import { serveCold } from './ranges/cold-worker.js';

listen((post) => serveCold(post, startHelper));
