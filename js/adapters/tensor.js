// SPDX-License-Identifier: Apache-2.0
// The shape in which transformers.js gives embeddings.

/** @typedef {Float32Array<ArrayBuffer> | Int8Array<ArrayBuffer> | Uint8Array<ArrayBuffer>} Data */

/**
 * Values with their dimensions, which the last index runs through first. `tensor[i]` and iterating give parts with one
 * dimension less, as views.
 */
export class Tensor {
  /**
   * @param {'float32' | 'int8' | 'uint8'} type
   * @param {Data} data
   * @param {number[]} dims
   */
  constructor(type, data, dims) {
    this.type = type;
    this.data = data;
    this.dims = dims;
    /** Where the values are: never on a GPU. @type {'cpu'} */
    this.location = 'cpu';
    return new Proxy(this, {
      get: (tensor, key) =>
        typeof key === 'string' && /^\d+$/.test(key) && Number(key) < tensor.dims[0]
          ? tensor.part(Number(key))
          : Reflect.get(tensor, key),
    });
  }

  /** The number of values. */
  get size() {
    return this.data.length;
  }

  /** @param {number} i @returns {Tensor | number} */
  part(i) {
    if (this.dims.length === 1) return this.data[i];
    const dims = this.dims.slice(1);
    const size = dims.reduce((product, each) => product * each, 1);
    return new Tensor(this.type, this.data.subarray(i * size, (i + 1) * size), dims);
  }

  *[Symbol.iterator]() {
    for (let i = 0; i < this.dims[0]; i++) yield this.part(i);
  }

  /**
   * Returns the values in nested arrays.
   * @returns {any[]}
   */
  tolist() {
    return Array.from(this, (part) => (typeof part === 'number' ? part : part.tolist()));
  }

  /** Does nothing: the values are freed as garbage. */
  dispose() {}
}
