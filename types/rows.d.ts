/**
 * Embeddings, one row after the other in one Float32Array. `length` is the number of values, `count`
 * the number of rows. subarray, slice and map return plain Float32Arrays.
 * @extends {Float32Array<ArrayBuffer>}
 */
export declare class Rows extends Float32Array<ArrayBuffer> {
    /** Number of rows. */
    count: number;
    /** Values of one row. */
    dimensions: number;
    static get [Symbol.species](): Float32ArrayConstructor;
    /**
     * @param {number} count
     * @param {number} dimensions values of one row
     */
    constructor(count: number, dimensions: number);
    /**
     * Returns row i, as a view of these values.
     * @param {number} i
     * @returns {Float32Array<ArrayBuffer>}
     */
    row(i: number): Float32Array<ArrayBuffer>;
}
