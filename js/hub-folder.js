// SPDX-License-Identifier: Apache-2.0
// The files of a repository that a conversion reads.
import { chooseFile } from './hub.js';

/**
 * Chooses the files of which a GGUF file is made: the configuration, the tokenizer and the weights, of the
 * repository and of its sentence-transformers modules. Where there is model.safetensors, its parts are not read.
 * Where there are no such weights, chooses a GGUF file.
 * @param {readonly string[]} files
 * @param {import('./hub.js').ModelName} model
 * @returns {string[]}
 */
export function chooseFolder(files, model) {
  if (model.file !== undefined) return [model.file];
  const chosen = files.filter((file) => {
    const [, folder = '', name] = /** @type {string[]} */ (/^(?:(\d+_\w+)\/)?(.*)$/.exec(file));
    if (name.includes('/')) return false;
    if (/\.(json|txt|jinja)$|^tokenizer\.model$/.test(name)) return true;
    const whole = `${folder && `${folder}/`}model.safetensors`;
    return file === whole || (/^model.*\.safetensors$/.test(name) && !files.includes(whole));
  });
  const isWeights = (/** @type {string} */ file) => /\.safetensors$/.test(file);
  // Weights come last: where they are kept, the others are.
  chosen.sort((a, b) => Number(isWeights(a)) - Number(isWeights(b)));
  return chosen.some(isWeights) ? chosen : [chooseFile(files, model)];
}
