// SPDX-License-Identifier: Apache-2.0
// A worker's code on the calling thread, for a pool without workers.
import { serve } from './worker.js';

/** @type {import('./member.js').StartLink} */
export const startLocal = ({ reply }) => {
  let stopped = false;
  const receive = serve((message) => {
    if (!stopped) reply(message);
  });
  return {
    // Each message is a task of its own, so that the page stays responsive between chunks.
    post(message) {
      setTimeout(() => {
        if (!stopped) void receive(/** @type {any} */ (message));
      }, 0);
    },
    hold() {},
    async stop() {
      stopped = true;
    },
  };
};
