// SPDX-License-Identifier: Apache-2.0
// Uses the package as it is imported where it runs, and says how it went.
import { Embedder } from '../../../js/browser.js';

/** @param {any} [options] */
export async function tryOut(options) {
  try {
    const embedder = await Embedder.load(undefined, options);
    const rows = await embedder.embed(['a cat', 'a kitten', 'the stock market']);
    const { workers, reasons } = embedder.info();
    await embedder.close();
    return { count: rows.count, workers, reason: reasons.workers };
  } catch (error) {
    const { name, code, message } = /** @type {any} */ (error);
    return { name, code, message };
  }
}
