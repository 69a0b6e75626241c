// SPDX-License-Identifier: Apache-2.0
// A generator's worker that ends one of its helpers, without a trap, when it is asked for a text. Its
// helpers run this script too.
const helpers = /** @type {Worker[]} */ ([]);
globalThis.Worker = class extends Worker {
  /** @param {string | URL} url @param {WorkerOptions} [options] */
  constructor(url, options) {
    super(url, options);
    helpers.push(this);
  }
};
await import('../../../js/generate-worker-browser.js');
addEventListener('message', ({ data }) => {
  if (data.type === 'write') helpers[0]?.terminate();
});
