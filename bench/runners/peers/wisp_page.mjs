// SPDX-License-Identifier: Apache-2.0
import { Embedder } from '../../../js/browser.js';
import { openPackage } from './wisp_package.mjs';

/** @param {{ model: string, threads: number, 'one-engine'?: boolean }} options */
export async function open({ model, threads, 'one-engine': oneEngine }) {
  return openPackage(Embedder, model, oneEngine ? { workers: 1, threads } : { workers: threads });
}
