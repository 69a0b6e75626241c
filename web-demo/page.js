// SPDX-License-Identifier: Apache-2.0
// Small tools that the pages share.

/**
 * Returns the element with an id.
 * @template {HTMLElement} T
 * @param {string} id
 */
export const at = (id) => /** @type {T} */ (document.getElementById(id));

/** Returns a number of bytes in words. */
export const megabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** Returns a number of things in words, with the plural of their name if it is not 1. */
export const count = (/** @type {number} */ n, /** @type {string} */ what) =>
  `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

/** Shows what failed, and why. @param {string} what @param {any} error */
export function showFailure(what, error) {
  at('failure').hidden = false;
  at('failure-text').textContent = `${what} (${error.code ?? error.name}): ${error.message}`;
}
