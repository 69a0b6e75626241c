// SPDX-License-Identifier: Apache-2.0

/**
 * A team that waits for what one of its helpers was to do: `at` is the address of the number that ends it.
 * @typedef {{ buffer: SharedArrayBuffer, at: number }} Team
 */

/**
 * Ends the wait of a team that has lost a helper: its engine fails.
 * @param {Team} team
 */
export const failTeam = ({ buffer, at }) => Atomics.store(new Int32Array(buffer, at, 1), 0, 1);
