// SPDX-License-Identifier: Apache-2.0
// Stands for transformers.js in tests: rows of numbers that depend on the text, of the size of all-MiniLM's.

const SIZE = 384;

export const env = { version: '0.0', backends: { onnx: { wasm: {} } } };

/** @param {string} task @param {string} model @param {{ dtype: string }} how */
export const pipeline = async (task, model, { dtype }) => {
  if (task !== 'feature-extraction' || !/MiniLM/.test(model)) throw new Error(`${task} ${model}`);
  if (dtype === 'fp32') throw new Error('no fp32 here');
  return async (/** @type {string[]} */ texts) => ({
    data: Float32Array.from(texts.flatMap((text) => Array.from({ length: SIZE }, (_, i) => (i === text.length % SIZE ? 1 : 0)))), // prettier-ignore
  });
};
