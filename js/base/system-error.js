// SPDX-License-Identifier: Apache-2.0

/**
 * Returns the reason in an error of the system, without its code and the call that failed.
 * @param {any} error
 * @returns {string}
 */
export const reasonOf = (error) =>
  String(error?.message ?? error)
    .replace(/^E[A-Z0-9]+: /, '')
    .replace(/, \w+(?: '.*')?$/s, '');
