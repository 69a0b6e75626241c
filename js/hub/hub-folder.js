// SPDX-License-Identifier: Apache-2.0
// The files of a repository that a conversion reads.
import { filesOf } from '../files/part-names.js';
import { chooseFile } from './hub.js';

/**
 * Weights of a model in the order in which wisp prefers them. Those in parts follow an index.
 * @type {readonly { whole: string, parts?: RegExp }[]}
 */
export const WEIGHTS = [
  { whole: 'model.safetensors', parts: /^model.*\.safetensors$/ },
  { whole: 'pytorch_model.bin', parts: /^pytorch_model.*\.bin$/ },
  { whole: 'model.onnx' },
  { whole: 'onnx/model.onnx' },
  { whole: 'onnx/model_fp16.onnx' },
  { whole: 'onnx/model_quantized.onnx' },
  { whole: 'onnx/model_int8.onnx' },
  { whole: 'onnx/model_uint8.onnx' },
  { whole: 'model_quantized.onnx' },
  { whole: 'onnx/model_q4.onnx' },
  { whole: 'onnx/model_q4f16.onnx' },
];

/** Suffixes of the files that hold an ONNX graph's weights. */
export const BESIDE_GRAPHS = ['_data', '.data'];

/**
 * Chooses the weights among the names of a folder's files.
 * @param {readonly string[]} names
 */
function weightsAmong(names) {
  for (const { whole, parts } of WEIGHTS) {
    if (names.includes(whole)) {
      return [
        whole,
        ...BESIDE_GRAPHS.map((end) => whole + end).filter((name) => names.includes(name)),
      ];
    }
    const found = names.filter((name) => parts?.test(name));
    if (found.length > 0) return found;
  }
  return [];
}

/**
 * Chooses the files of which a GGUF file is made: the configuration, the tokenizer and the weights, of the
 * repository and of its sentence-transformers modules. If there are no weights that are read, chooses a GGUF file.
 * @param {readonly string[]} files
 * @param {import('./hub.js').ModelName} model
 * @returns {string[]}
 */
export function chooseFolder(files, model) {
  if (model.file !== undefined) return filesOf(model.file);
  /** @type {Map<string, string[]>} */
  const folders = new Map();
  for (const file of files) {
    const [, folder = '', name] = /** @type {string[]} */ (/^(\d+_\w+\/)?(.*)$/.exec(file));
    folders.set(folder, [...(folders.get(folder) ?? []), name]);
  }
  /** @type {string[]} */
  const others = [];
  /** @type {string[]} */
  const weights = [];
  for (const [folder, names] of folders) {
    const isOther = (/** @type {string} */ name) =>
      /^[^/]*\.(json|txt|jinja)$|^tokenizer\.model$|^artifact\.metadata$/.test(name); // the last is of ColBERTs
    others.push(...names.filter(isOther).map((name) => folder + name));
    weights.push(...weightsAmong(names).map((name) => folder + name));
  }
  // Weights come last: if they are kept, the others are.
  return weights.length > 0 ? [...others, ...weights] : filesOf(chooseFile(files, model));
}

/**
 * Whether files of a repository that are kept have the weights of a folder.
 * @param {readonly string[]} files
 */
export function hasWeights(files) {
  return files.some((file) => /\.(safetensors|bin|onnx)$/.test(file));
}
