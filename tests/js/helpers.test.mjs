// SPDX-License-Identifier: Apache-2.0
// How a Web Worker and its page start a helper, with both on one thread.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startHelper } from '../../js/platform/helpers-browser.js';
import { startHelpers } from '../../js/platform/helpers-page.js';

/** @typedef {{ reply(message: object): void, end(error: unknown): void }} Handlers */

/**
 * Asks for a helper as a worker does, and answers as the helper does.
 * @param {(helper: Handlers) => void} answer
 */
async function askForHelper(answer) {
  /** Those of the page, for the worker and then for the helper. @type {Handlers[]} */
  const heard = [];
  const platform = {
    startWorker: () => (/** @type {Handlers} */ on) => {
      heard.push(on);
      return { post() {}, stop() {} };
    },
  };
  const { startWorker } = startHelpers(/** @type {any} */ (platform));
  /** @type {any} */ (startWorker)()({ reply() {}, end() {} });
  const scope = /** @type {any} */ (globalThis);
  scope.postMessage = (/** @type {object} */ message) => heard[0].reply(message);
  const { ready, stop } = startHelper({ type: 'help' });
  delete scope.postMessage;
  answer(heard[1]);
  await ready.finally(stop);
}

test('a helper is ready when it says so', () => askForHelper(({ reply }) => reply({ team: {} })));

for (const message of ['out of memory', '', undefined]) {
  test(`a helper that fails with the message ${JSON.stringify(message)} is not ready`, async () => {
    const failure = { name: 'Error', message: message ?? '' };
    await assert.rejects(
      askForHelper(({ end }) => end({ message })),
      failure,
    );
  });
}
