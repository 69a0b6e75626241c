// SPDX-License-Identifier: Apache-2.0
import { inTime } from '../pool/checks.mjs';

/** A loaded machine may let a page wait for long; what hangs waits for ever. */
const LONGEST_MS = 120_000;

/**
 * @template T
 * @param {Promise<T>} promise
 */
export const settled = (promise) => inTime(promise, LONGEST_MS);
