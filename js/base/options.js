// SPDX-License-Identifier: Apache-2.0
// The options of loading and embedding: what each may be, and what takes it.
import { WispError } from './errors.js';

/** @typedef {import('../../types/index.js').SparseOptions} SparseOptions */

/**
 * The values of an option: its type, the bounds of a number, and names that stand for values. `of` says what takes the
 * option in C, by its name: a model, whose weights engines share only if all options of models are equal, or a session.
 * JavaScript takes the others. tests/js/options.test.mjs compares this with types/ and src/binding/.
 * @typedef {{ is?: string, least?: number, most?: number, names?: string[], of?: 'model' | 'session' }} Option
 */

/** Options of load. @type {Record<string, Option>} */
export const LOAD_OPTIONS = {
  workers: { is: 'whole', least: 0, most: 1024 },
  threads: { is: 'whole', least: 1, most: 8, names: ['auto'], of: 'session' },
  compute: { is: 'text', of: 'model' },
  kernels: { is: 'text', of: 'model' },
  predictor: { is: 'text', of: 'model' },
  portable: { is: 'flag', of: 'model' },
  device: { is: 'text', of: 'model' },
  memory: { is: 'whole', least: 1, most: Number.MAX_SAFE_INTEGER, of: 'model' },
  sparsity: { is: 'number', of: 'session' },
  recall: { is: 'flag', of: 'session' },
  attention: { is: 'text', of: 'session' },
  cacheType: { is: 'text', of: 'session' },
  promptCache: { is: 'text', of: 'session' },
  kvMemory: { is: 'whole', least: 1, most: Number.MAX_SAFE_INTEGER, of: 'session' },
  promptCacheSize: { is: 'whole', least: 1, most: Number.MAX_SAFE_INTEGER, of: 'session' },
  vectorCache: { is: 'text', of: 'session' },
  vectorCacheSize: { is: 'whole', least: 1, most: Number.MAX_SAFE_INTEGER, of: 'session' },
  cold: {},
  queueLimit: { is: 'number', least: 0 },
  startTimeout: { is: 'number', least: 0 },
  idleTimeout: { is: 'number', least: 0 },
  files: {},
  integrity: {},
  wasm: {},
  worker: { is: 'script' },
  backend: { is: 'name', names: ['auto', 'native', 'wasm'] },
  addon: {},
  signal: { is: 'signal' },
  onProgress: { is: 'function' },
};

/** Options of calls with texts. @type {Record<string, Option>} */
export const BULK_OPTIONS = {
  priority: { is: 'name', names: ['auto', 'high', 'low'] },
  signal: { is: 'signal' },
  onProgress: { is: 'function' },
};

/** Options of embed. @type {Record<string, Option>} */
export const EMBED_OPTIONS = { ...BULK_OPTIONS, prompt: { is: 'text' }, dimensions: {} };

/** Whether a value is of a type, and what such values are called. @type {Record<string, [(value: any) => boolean, string]>} */
const TYPES = {
  text: [(value) => typeof value === 'string' && !value.includes('\0'), 'a string without NUL'],
  flag: [(value) => typeof value === 'boolean', 'true or false'],
  number: [(value) => typeof value === 'number', 'a number'],
  'nonzero number': [
    (value) => typeof value === 'number' && Math.fround(value) !== 0,
    'a number other than 0',
  ],
  whole: [Number.isInteger, 'a whole number'],
  name: [() => false, 'one of'],
  function: [(value) => typeof value === 'function', 'a function'],
  script: [Boolean, 'a URL or a function'],
  signal: [(value) => typeof value?.addEventListener === 'function', 'the signal of an AbortController'], // prettier-ignore
};

/**
 * Checks that options are an object, that each of them exists, and that its value is of its type.
 * @param {unknown} options
 * @param {Record<string, Option> | readonly string[]} known names are of options of load, or those that are checked if
 *   they are used
 */
export function checkOptions(options, known) {
  if (typeof options !== 'object' || options === null) throw wrong('options', `${shown(options)} is not an object`); // prettier-ignore
  const isList = Array.isArray(known);
  const names = isList ? known : Object.keys(known);
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw wrong(name, `there is no such option; there are ${names.join(', ')}`); // prettier-ignore
  }
  // An object may inherit options, and from Object.prototype what another script has put there.
  for (const name of names) {
    const value = /** @type {any} */ (options)[name];
    checkOption(value, name, /** @type {Record<string, Option>} */ (isList ? LOAD_OPTIONS : known)[name]); // prettier-ignore
  }
}

/**
 * @param {any} value undefined: the option is not given
 * @param {string} name
 * @param {Option} [option]
 */
export function checkOption(value, name, { is, least, most, names = [] } = {}) {
  if (value === undefined || !is || names.includes(value)) return;
  const [holds, what] = TYPES[is];
  if (holds(value) && (least === undefined || (value >= least && value <= (most ?? value)))) return;
  const range = least === undefined ? names.join(', ') : `from ${least}${most === undefined ? '' : ` to ${most}`}`; // prettier-ignore
  throw wrong(name, `${shown(value)} is not ${what} ${range}`.trimEnd());
}

/**
 * @param {string} field
 * @param {string} what
 */
export function wrong(field, what) {
  return new WispError('argument', `${field}: ${what}`, { field });
}

/**
 * Returns a value that is wrong, as messages show it: not every one can become text.
 * @param {unknown} value
 */
export function shown(value) {
  if (Object(value) === value) return 'an object';
  return (value ?? null) === null ? String(value) : `${typeof value} ${String(value)}`;
}

/**
 * @param {unknown} value
 * @param {string} field
 */
export function checkString(value, field) {
  if (typeof value !== 'string') throw wrong(field, `${shown(value)} is not a string`);
}

/**
 * Returns those of the options that an engine takes.
 * @param {Record<string, any>} options
 * @returns {import('../../types/engine.js').EngineOptions}
 */
export const engineOptions = (options) =>
  Object.fromEntries(Object.entries(options).filter(([name]) => LOAD_OPTIONS[name]?.of));

/**
 * Returns the predictor to use: if only a sparsity is given, that is lowrank.
 * @param {SparseOptions} options
 */
export function wantedPredictor({ predictor = 'auto', sparsity }) {
  return predictor === 'auto' && sparsity !== undefined ? 'lowrank' : predictor;
}
