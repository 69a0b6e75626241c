// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker whose model may lack its cold neurons.
import { serveCold } from './cold-worker.js';
import { listen } from './scope-browser.js';

listen(serveCold);
