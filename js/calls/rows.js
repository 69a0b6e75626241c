// SPDX-License-Identifier: Apache-2.0

/**
 * Embeddings, one row after the other in one Float32Array. `length` is the number of values, `count`
 * the number of rows. subarray, slice and map return plain Float32Arrays.
 * @extends {Float32Array<ArrayBuffer>}
 */
export class Rows extends Float32Array {
  static get [Symbol.species]() {
    return Float32Array;
  }

  /**
   * @param {number} count
   * @param {number} dimensions values of one row
   */
  constructor(count, dimensions) {
    super(new ArrayBuffer(4 * count * dimensions));
    /** Number of rows. */
    this.count = count;
    /** Values of one row. */
    this.dimensions = dimensions;
  }

  /** By this node.cjs recognises rows without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'Rows';
  }

  /**
   * Gives the rows one after the other. `values()` gives the single values.
   * @returns {any}
   */
  *[Symbol.iterator]() {
    for (let i = 0; i < this.count; i++) yield this.row(i);
  }

  /**
   * Returns row i, as a view of these values.
   * @param {number} i
   * @returns {Float32Array<ArrayBuffer>}
   */
  row(i) {
    if (!Number.isInteger(i) || i < 0 || i >= this.count) {
      throw new RangeError(`row ${i}: there are ${this.count}`);
    }
    return this.subarray(i * this.dimensions, (i + 1) * this.dimensions);
  }
}
