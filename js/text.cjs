// SPDX-License-Identifier: Apache-2.0
// wisp-engine/text for require().
'use strict';
const { WispError, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./text.js'), 'text.js');

/** @type {any} */
const embedStream = (/** @type {any[]} */ ...given) => {
  /** @type {Promise<AsyncIterableIterator<any>> | undefined} */
  let opening;
  const open = () => (opening ??= loadModule().then((text) => text.embedStream(.../** @type {[any, any]} */ (given)))); // prettier-ignore
  return {
    next: async () => (await open()).next(),
    return: async (/** @type {any} */ value) => (await open()).return?.(value),
    throw: async (/** @type {any} */ error) => (await open()).throw?.(error),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
};

/** @type {typeof import('./text.js').chunk} */
const chunk = async (...given) => (await loadModule()).chunk(...given);

module.exports = { chunk, embedStream, WispError };
