// SPDX-License-Identifier: Apache-2.0
// How a model is to be opened by range.
import { shown, wrong } from '../base/options.js';

/** Bytes that are fetched first unless a caller knows better: most headers fit in them. */
const FIRST_BYTES = 1024 * 1024;

/** Two ranges are fetched as one if at most so many bytes are between. */
const GAP_BYTES = 16 * 1024;

/**
 * @typedef {object} How
 * @property {'wait' | 'skip'} mode
 * @property {number} gap
 * @property {number} first
 * @property {boolean} complete
 * @property {boolean} store
 * @property {boolean} immutable
 * @property {string | undefined} sha256 of the header
 * @property {(() => void) | undefined} onChange
 * @property {number} tokens
 * @property {number} [memory]
 */

/**
 * Checks the options cold and memory of Embedder.load, and fills in what is not given.
 * @param {unknown} wanted a mode, or an object with one
 * @param {number} [memory]
 * @returns {How}
 */
export function checkCold(wanted, memory) {
  const given = typeof wanted === 'object' && wanted !== null ? wanted : { mode: wanted };
  const savesData = /** @type {any} */ (globalThis.navigator)?.connection?.saveData === true;
  const how = { gap: GAP_BYTES, first: FIRST_BYTES, complete: !savesData, store: true, immutable: false, sha256: undefined, onChange: undefined, tokens: 0 }; // prettier-ignore
  const known = ['mode', ...Object.keys(how)];
  for (const [name, value] of Object.entries(given)) {
    if (!known.includes(name)) throw wrong('cold', `there is no ${name}; there are ${known.join(', ')}`); // prettier-ignore
    if (value !== undefined) Object.assign(how, { [name]: value });
  }
  const { mode, gap, first, complete, store, immutable, sha256, onChange, tokens } =
    /** @type {any} */ (how);
  if (memory !== undefined && mode !== 'wait') throw wrong('memory', "only with cold: 'wait'");
  if (mode === undefined) throw wrong('cold', "mode is missing: 'wait' or 'skip'");
  if (mode !== 'wait' && mode !== 'skip') throw wrong('cold', `${shown(mode)} is not wait or skip`);
  for (const [name, value] of Object.entries({ gap, first, tokens })) {
    if (Number.isInteger(value) && value >= (name === 'first' ? 1 : 0)) continue;
    throw wrong(
      'cold',
      `${name}: ${shown(value)} is not a number of ${name === 'tokens' ? name : 'bytes'}`,
    );
  }
  for (const [name, value] of Object.entries({ complete, store, immutable })) {
    if (typeof value !== 'boolean')
      throw wrong('cold', `${name}: ${shown(value)} is not true or false`);
  }
  const isHash = typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256);
  if (sha256 !== undefined && !isHash) {
    throw wrong('cold', `sha256: ${shown(sha256)} is not 64 lower-case hexadecimal digits`);
  }
  if (onChange !== undefined && typeof onChange !== 'function') {
    throw wrong('cold', `onChange: ${shown(onChange)} is not a function`);
  }
  return { .../** @type {any} */ (how), memory };
}
