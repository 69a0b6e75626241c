// SPDX-License-Identifier: Apache-2.0
// transformers.js in a page: the pipeline is in a module worker, as its examples have it.
import { batchChoices } from '../measure.mjs';
import { askerOf } from './ask.mjs';

/**
 * @param {{ model: string, threads: number, dtype: string }} options
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function open({ model, threads, dtype }) {
  const url = new URL('./transformers_worker.mjs', import.meta.url);
  const ask = askerOf(new Worker(url, { type: 'module' }));
  const { about } = await ask({ model, threads, dtype });
  return {
    about,
    choices: batchChoices,
    embed: (texts, settings) => ask({ texts, settings }).then(({ rows }) => rows),
  };
}
