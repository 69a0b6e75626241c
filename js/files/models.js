// SPDX-License-Identifier: Apache-2.0
// Models that embedders have read. An environment frees a model's bytes when it collects garbage, and
// quick loading and closing outruns that. So embedders of one model share its bytes, and the model that
// was used last stays for the next load.
import { request, stateOf } from './source.js';

/** @typedef {import('../../types/protocol.js').SharedModel} SharedModel */

/** A larger model does not stay when nothing uses it. */
const STAYS_BYTES = 128e6;

/** @type {Map<string, { model: SharedModel, users: number }>} */
const models = new Map();

/**
 * Reads a model, or takes the one that has been read from the same place.
 * @param {string | undefined} key names the place and the state of what is there; undefined if the
 *   state cannot be told: such a model is not shared
 * @param {() => Promise<SharedModel>} read
 * @returns {Promise<import('../../types/internal.js').HeldModel>}
 */
export async function holdModel(key, read) {
  if (key === undefined) return { model: await read(), release() {} };
  let found = models.get(key);
  if (!found) {
    releaseModels();
    const model = await read();
    // Another embedder may have read it meanwhile.
    found = models.get(key) ?? { model, users: 0 };
    models.set(key, found);
  }
  const entry = found;
  entry.users++;
  let held = true;
  return {
    model: entry.model,
    release() {
      if (!held) return;
      held = false;
      if (--entry.users > 0) return;
      releaseModels(key);
      if (entry.model.size > STAYS_BYTES) models.delete(key);
    },
  };
}

/**
 * Requests a model; reads it unless an embedder has it in the state that the server names.
 * @param {URL} url
 * @param {import('../../types/internal.js').Reading} reading
 * @param {(response: Awaited<ReturnType<typeof request>>) => Promise<SharedModel>} read
 */
export async function holdUrl(url, reading, read) {
  const response = await request(url, reading.signal);
  const state = stateOf(url, response);
  let isRead = false;
  const held = await holdModel(state && `${state} ${reading.integrity}`, () => {
    isRead = true;
    return read(response);
  });
  if (!isRead) {
    await response.body?.cancel();
    reading.progress(held.model.size, held.model.size);
  }
  return held;
}

/**
 * Lets go of the models that nothing uses.
 * @param {string} [except] the key of one that stays
 */
export function releaseModels(except) {
  for (const [key, { users }] of models) if (users === 0 && key !== except) models.delete(key);
}
