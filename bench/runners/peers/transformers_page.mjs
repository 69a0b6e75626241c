// SPDX-License-Identifier: Apache-2.0
// Runs transformers.js in a page, with the pipeline in a module worker as in its examples.
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
