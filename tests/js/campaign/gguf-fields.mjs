// SPDX-License-Identifier: Apache-2.0

/**
 * A number in the header of a GGUF file.
 * @typedef {object} Field
 * @property {number} at
 * @property {1 | 2 | 4 | 8} bytes
 */

/** Bytes of a value of each GGUF type; strings (8) and arrays (9) have no fixed size. */
const TYPE_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const STRING = 8;
const ARRAY = 9;

/** Elements of an array that are listed as fields. */
const LISTED_ELEMENTS = 4;

/**
 * Lists the counts, lengths, types, dimensions, offsets and values in the header of a whole GGUF file.
 * @param {Uint8Array} file
 * @returns {{ fields: Field[], headerBytes: number }}
 */
export function readFields(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  /** @type {Field[]} */
  const fields = [];
  let at = 4; // after the magic

  /**
   * @param {1 | 2 | 4 | 8} bytes
   * @returns {number}
   */
  const number = (bytes) => {
    fields.push({ at, bytes });
    at += bytes;
    if (bytes === 8) return Number(view.getBigUint64(at - 8, true));
    return bytes === 4 ? view.getUint32(at - 4, true) : view.getUint8(at - bytes);
  };
  const text = () => {
    const length = number(8);
    at += length;
  };
  /** @param {number} type */
  const value = (type) => {
    if (type === STRING) text();
    else if (type === ARRAY) array();
    else number(/** @type {1 | 2 | 4 | 8} */ (TYPE_BYTES[type]));
  };
  const array = () => {
    const type = number(4);
    const count = number(8);
    for (let i = 0; i < count; i++) {
      const known = fields.length;
      value(type);
      if (i >= LISTED_ELEMENTS) fields.length = known;
    }
  };

  number(4); // version
  const tensors = number(8);
  const entries = number(8);
  for (let i = 0; i < entries; i++) {
    text();
    value(number(4));
  }
  for (let i = 0; i < tensors; i++) {
    text();
    const dimensions = number(4);
    for (let d = 0; d < dimensions; d++) number(8);
    number(4); // type
    number(8); // offset
  }
  return { fields, headerBytes: at };
}
