// SPDX-License-Identifier: Apache-2.0
// A "worker" on the calling thread, for a pool that was asked for none.
import { serve } from './worker.js';

/** @type {import('./member.js').StartLink} */
export const startLocal = ({ reply }) => {
  let stopped = false;
  const receive = serve((message) => {
    if (!stopped) reply(message);
  });
  return {
    // In a task of its own, so that the page lives on between chunks.
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
