// SPDX-License-Identifier: Apache-2.0
// The code that runs in a generator's worker.
import { nextTask } from './link-local.js';
import { TextEngine } from './text-engine.js';
import { help } from './threads.js';
import { serveBy } from './worker.js';

/**
 * The worker looks for a message after so many seconds. Tokens of that time go in one message, because a
 * small model writes thousands in a second; the first token does not wait for others.
 */
const SLICE = 0.008;
const FIRST_SLICE = 0.001;

/**
 * @param {Parameters<import('./worker.js').Serve>[0]} post
 * @param {import('./threads.js').StartHelper} [startHelper]
 * @returns {ReturnType<import('./worker.js').Serve>}
 */
export const serveText = (post, startHelper) => {
  let stopped = false;

  /**
   * @param {TextEngine} engine
   * @param {import('../types/protocol.js').WriteRequest} request
   */
  async function write(engine, { id, prompt, options }) {
    const text = engine.write(prompt, options);
    stopped = false;
    try {
      for (let slice = FIRST_SLICE; ;) {
        const { pieces, result, ended } = text.run(slice);
        if (ended || stopped) return { pieces, result };
        if (pieces.length > 0) {
          post({ id, type: 'part', value: { pieces, result } }, []);
          slice = SLICE;
        }
        await new Promise((resolve) => nextTask(() => resolve(undefined)));
      }
    } finally {
      text.close();
    }
  }

  const open = (/** @type {[any, any, any]} */ ...of) => TextEngine.open(...of, startHelper);
  const receive = serveBy(post, { open }, (engine, request) => {
    if (request.type === 'write') return write(engine, request);
    if (request.type === 'score') return engine.score(request.ids, request.first);
    return request.type === 'logits' ? engine.logits(request.ids) : engine.detokenize(request.ids);
  });
  return async (/** @type {any} */ request) => {
    if (request.type === 'stop') stopped = true;
    else if (request.type === 'help')
      await help(request, () => post(/** @type {any} */ ({ ready: true }), []));
    else await receive(request);
  };
};
