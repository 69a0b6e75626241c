// SPDX-License-Identifier: Apache-2.0
// The code that runs in a worker whose engine has threads.
import { TeamEngine } from './team-engine.js';
import { orHelp } from './threads.js';
import { serve } from './worker.js';

/**
 * @param {Parameters<import('./worker.js').Serve>[0]} post
 * @param {import('./threads.js').StartHelper} [startHelper]
 * @returns {ReturnType<import('./worker.js').Serve>}
 */
export function serveTeam(post, startHelper) {
  const open = (/** @type {[any, any, any]} */ ...of) => TeamEngine.open(...of, startHelper);
  return orHelp(post, serve(post, { open }));
}
