// SPDX-License-Identifier: Apache-2.0
// Helpers of a Web Worker, which its page starts. In Firefox a worker that makes one itself may wait in the constructor
// for ever: on a busy machine one of a hundred did.
import { failTeam } from './team-failure.js';

/**
 * Returns the platform with workers that get helpers of their own script if they ask for them, which end with them.
 * @param {import('../../types/internal.js').Platform} platform
 * @returns {import('../../types/internal.js').Platform}
 */
export const startHelpers = (platform) => ({
  ...platform,
  startWorker(...how) {
    const start = platform.startWorker(...how);
    return ({ reply, end }) => {
      /** Ends helpers. @type {Set<() => void>} */
      const stops = new Set();
      const stopAll = () => stops.forEach((stop) => stop());
      const link = start({
        reply(/** @type {any} */ message) {
          if (message?.helper) startHelperBy(start, message, stops);
          else reply(message);
        },
        end(error) {
          stopAll();
          end(error);
        },
      });
      return {
        ...link,
        stop() {
          stopAll();
          return link.stop();
        },
      };
    };
  },
});

/**
 * Starts one helper.
 * @param {import('../../types/internal.js').StartLink} start
 * @param {{ helper: object, port: MessagePort }} message
 * @param {Set<() => void>} stops
 */
function startHelperBy(start, { helper, port }, stops) {
  /** @type {import('./team-failure.js').Team | undefined} */
  let team;
  /** @type {import('../../types/internal.js').Link | undefined} */
  let link;
  const stop = () => {
    stops.delete(stop);
    port.close();
    void link?.stop();
  };
  const fail = (/** @type {any} */ { message }) => {
    if (team) failTeam(team);
    port.postMessage({ why: message });
    stop();
  };
  stops.add(stop);
  port.onmessage = stop;
  try {
    link = start({
      reply(/** @type {any} */ message) {
        ({ team } = message);
        port.postMessage({});
      },
      end: fail,
    });
    link.post(helper);
  } catch (error) {
    fail(error); // the page may not start it
  }
}
