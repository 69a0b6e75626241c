// SPDX-License-Identifier: Apache-2.0
// Names of models in several files, as llama-gguf-split gives them: NAME-00001-of-00003.gguf.
import { WispError } from '../base/errors.js';

const NAME = /-(\d{5})-of-(\d{5})\.gguf$/i;

/** Models have no more files than this, natively neither. */
const MOST = 256;

/**
 * Returns which file of how many a name says it is; undefined if it says nothing of it, or names the only one.
 * @param {string} name
 */
export function partOf(name) {
  const [part, count] = (NAME.exec(name) ?? []).slice(1).map(Number);
  return count > 1 && part >= 1 && part <= count ? { part, count } : undefined;
}

/**
 * @param {string} name
 * @param {number} part
 */
const renamed = (name, part) =>
  name.replace(NAME, (end) => `-${String(part).padStart(5, '0')}${end.slice(6)}`);

/**
 * Returns the names of all files of a model, of which the first is named; of one in one file, its name.
 * @param {string} name
 * @returns {string[]}
 */
export function filesOf(name) {
  const found = partOf(name);
  if (!found) return [name];
  const { part, count } = found;
  if (part === 1 && count <= MOST)
    return Array.from({ length: count }, (_, i) => renamed(name, i + 1));
  throw new WispError(
    'argument',
    `${name} is part ${part} of the ${count} files of a model: name the first of at most ${MOST}, ${renamed(name, 1)}, ` +
      'with which all come',
    { field: 'file' },
  );
}

/**
 * Returns whether two files are the same one, or belong to one model in several files.
 * @param {string} a
 * @param {string} b
 */
export const isSameModel = (a, b) =>
  a === b ||
  (partOf(a) !== undefined && partOf(b) !== undefined && renamed(a, 1) === renamed(b, 1));
