// SPDX-License-Identifier: Apache-2.0
// The code that runs in a generator's worker.
import { nextTask } from '../platform/link-local.js';
import { TextEngine } from './text-engine.js';
import { orHelp } from './threads.js';
import { serveBy } from './worker.js';

/**
 * The worker looks for a message after so many seconds. Tokens of that time go in one message, because a
 * small model writes thousands in a second; the first token does not wait for others.
 */
const SLICE = 0.008;
const FIRST_SLICE = 0.001;

/** @typedef {import('../../types/internal.js').Work} Work */

/**
 * Answers the requests of generators by one kind of engine.
 * @param {Parameters<import('./worker.js').Serve>[0]} post
 * @param {{ open: Function }} kind
 * @returns {(request: any) => Promise<void>}
 */
export function serveTextBy(post, kind) {
  let stopped = false;
  /** @type {Work | undefined} */
  let work;

  /**
   * @param {Work | Promise<Work>} opening
   * @param {number} id
   */
  async function finish(opening, id) {
    stopped = false;
    const hand = (/** @type {any} */ value) => post({ id, type: 'part', value }, []);
    try {
      work = await opening;
      if (stopped) work.stop?.();
      for (let slice = FIRST_SLICE; ;) {
        const { ended, ...value } = await work.run(slice, hand);
        if (ended || stopped) return value.found ?? value;
        if (value.pieces?.length > 0) {
          hand(value);
          slice = SLICE;
        }
        await new Promise((resolve) => nextTask(() => resolve(undefined)));
      }
    } finally {
      work?.close();
      work = undefined;
    }
  }

  const receive = serveBy(post, kind, (engine, request) => {
    const { type, id, text } = request;
    if (type === 'write')
      return finish(engine.write(request.texts, request.atOnce, request.languages), id);
    if (type === 'beams') return finish(engine.search(request), id);
    if (type === 'score') return engine.score(text, request.first);
    if (type === 'logits') return engine.logits(text);
    if (type === 'save') return engine.saveState();
    if (type === 'load') return engine.loadState(request.state);
    return engine.detokenize(request.ids, request.continues);
  });
  return async (request) => {
    if (request.type !== 'stop') return receive(request);
    stopped = true;
    work?.stop?.();
  };
}

/**
 * @param {Parameters<import('./worker.js').Serve>[0]} post
 * @param {import('./threads.js').StartHelper} [startHelper]
 * @returns {ReturnType<import('./worker.js').Serve>}
 */
export const serveText = (post, startHelper) => {
  const open = (/** @type {[any, any, any]} */ ...of) => TextEngine.open(...of, startHelper);
  return orHelp(post, serveTextBy(post, { open }));
};
