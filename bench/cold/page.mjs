// SPDX-License-Identifier: Apache-2.0
// A page's first visit: opens a model and embeds one text as soon as it can. Times count from the navigation.

/**
 * @typedef {object} Visit
 * @property {'wisp' | 'transformers'} peer
 * @property {string} model
 * @property {string} text
 * @property {any} [cold] wisp's option
 */

/** @param {Visit} visit */
async function wisp({ model, text, cold }) {
  const [{ Embedder }] = await Promise.all([
    import(/** @type {any} */ ('/js/browser.js')),
    cold && import(/** @type {any} */ ('/js/cold-browser.js')),
  ]);
  const embedder = await Embedder.load(model, { workers: 1, cold });
  const opened = performance.now();
  const [row] = await embedder.embed([text]);
  return {
    opened,
    row: Array.from(row),
    about: embedder.info(),
    stats: () => embedder.stats().cold,
  };
}

/** @param {Visit} visit */
async function transformers({ model, text }) {
  const worker = new Worker('/cold/transformers_worker.mjs', { type: 'module' });
  /** @param {any} message @returns {Promise<any>} */
  const ask = (message) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message: why }) => reject(new Error(why));
      worker.postMessage(message);
    });
  const about = await ask({ model });
  const opened = performance.now();
  const row = await ask({ text });
  return { opened, row: Array.from(row), about, stats: () => undefined };
}

/** @type {Promise<any>} */
const visited = (async () => {
  const visit = /** @type {Visit} */ (JSON.parse(decodeURIComponent(location.hash.slice(1))));
  const { opened, row, about, stats } = await { wisp, transformers }[visit.peer](visit);
  const ended = performance.now();
  return {
    opened: opened / 1000,
    seconds: ended / 1000,
    at: performance.timeOrigin + ended,
    row,
    about,
    cold: stats(),
  };
})();
Object.assign(globalThis, { visited });
