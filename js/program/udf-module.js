// SPDX-License-Identifier: Apache-2.0
// Appends a model to wisp-udf-*.wasm, as src/cli/udf_module.c does. tools/udf_template.mjs describes these files.
import { WispError } from '../base/errors.js';

const NAME = 'wisp-udf';
const MOST = 2 ** 32 - 1; // bytes of a section

/** @param {Uint8Array} bytes @param {number} at @returns {{ value: number, end: number }} a number in LEB128 */
function readLeb(bytes, at) {
  let value = 0;
  for (let scale = 1, byte = 0x80; byte & 0x80; scale *= 128) {
    byte = bytes[at++];
    value += (byte & 0x7f) * scale;
  }
  return { value, end: at };
}

/** Writes a number over one of five bytes. @param {Uint8Array} bytes @param {number} at @param {number} value */
function writeLeb(bytes, at, value) {
  for (let i = 0; i < 5; i++) bytes[at + i] = (Math.floor(value / 128 ** i) % 128) | (i < 4 ? 0x80 : 0); // prettier-ignore
}

/**
 * Returns the parts of a module that holds the model and imports nothing, and the SQL by which ClickHouse runs it.
 * @param {Uint8Array} template wisp-udf-*.wasm
 * @param {Uint8Array} model a GGUF file
 */
export function udfModule(template, model) {
  const bytes = Uint8Array.from(template);
  const view = new DataView(bytes.buffer);
  const { value: length, end: begin } = readLeb(bytes, 9); // of the first section
  const name = begin + 1 + NAME.length;
  if (Buffer.from(bytes.subarray(begin + 1, name)).toString() !== NAME)
    throw new WispError('format', 'wisp-udf: not a module of wisp for databases');
  const [size, section, segment] = [0, 1, 2].map((i) => view.getUint32(name + 4 * i, true));
  const whole = readLeb(bytes, section).value + model.length;
  if (whole > MOST) throw new WispError('unsupported', `the model has ${model.length} bytes, more than a module holds`); // prettier-ignore
  view.setFloat64(size, model.length, true);
  writeLeb(bytes, section, whole);
  writeLeb(bytes, segment, model.length);
  const sql = new TextDecoder().decode(bytes.subarray(name + 12, begin + length));
  return { parts: [bytes, model], sql };
}
