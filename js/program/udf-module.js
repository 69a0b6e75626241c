// SPDX-License-Identifier: Apache-2.0
// Puts a model into the module wisp-udf-*.wasm (wasm/udf), so that the module imports nothing: databases run such.
//
// The imports, which are functions, become the module's first functions. So every function keeps its number, and the
// rest of the code stays as it is. The model is a passive segment, from which `wisp.read` copies.
// Source: the WebAssembly Core Specification 2.0, "Binary Format".
import { WispError } from '../base/errors.js';

const SECTION = { import: 2, function: 3, export: 7, start: 8, code: 10, data: 11, count: 12 };

/** All sections but that of imports, in the order in which they stand. */
const ORDER = [1, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11];

/** Prepares the module's memory. Hosts would not call it as an export; every engine calls a start function. */
const START = '_initialize';

/** @param {number} value a whole number from 0 to 2^32 - 1 @returns {number[]} as LEB128 */
function leb(value) {
  const bytes = [];
  for (; value > 0x7f; value = Math.floor(value / 128)) bytes.push((value % 128) | 0x80);
  return [...bytes, value];
}

/** @param {number} value @returns {number[]} */
const f64 = (value) => [...new Uint8Array(new Float64Array([value]).buffer)];

/** Reads what is left of some bytes. */
class Reader {
  at = 0;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
  }

  get ended() {
    return this.at >= this.bytes.length;
  }

  byte() {
    return this.bytes[this.at++];
  }

  leb() {
    let value = 0;
    for (let scale = 1, byte = 0x80; byte & 0x80; scale *= 128) {
      byte = this.byte();
      value += (byte & 0x7f) * scale;
    }
    return value;
  }

  take(/** @type {number} */ length) {
    return this.bytes.subarray(this.at, (this.at += length));
  }

  rest() {
    return this.take(this.bytes.length - this.at);
  }

  text() {
    return new TextDecoder().decode(this.take(this.leb()));
  }
}

/** @param {Uint8Array} module @returns {Map<number, Uint8Array>} the contents of sections, without those that say nothing to engines */
function sectionsOf(module) {
  const reader = new Reader(module);
  if (reader.take(8).join() !== '0,97,115,109,1,0,0,0')
    throw new WispError('format', 'wisp-udf: not a WebAssembly module');
  const sections = new Map();
  while (!reader.ended) {
    const id = reader.byte();
    const contents = reader.take(reader.leb());
    if (id !== 0) sections.set(id, contents);
  }
  return sections;
}

/** @param {Uint8Array} contents of a section that is a list @returns {{ count: number, rest: Uint8Array }} */
function listOf(contents = new Uint8Array([0])) {
  const reader = new Reader(contents);
  return { count: reader.leb(), rest: reader.rest() };
}

/** @param {Uint8Array} contents @returns {{ name: string, type: number }[]} */
function importsOf(contents) {
  const reader = new Reader(contents);
  return Array.from({ length: reader.leb() }, () => {
    const name = `${reader.text()}.${reader.text()}`;
    if (reader.byte() !== 0) throw new WispError('format', `wisp-udf: ${name} is not a function`);
    return { name, type: reader.leb() };
  });
}

/** @param {Uint8Array} contents @returns {{ name: string, index: number, bytes: Uint8Array }[]} */
function exportsOf(contents) {
  const reader = new Reader(contents);
  return Array.from({ length: reader.leb() }, () => {
    const from = reader.at;
    const name = reader.text();
    reader.byte();
    const index = reader.leb();
    return { name, index, bytes: contents.subarray(from, reader.at) };
  });
}

/**
 * The instructions of the functions that take the place of imports.
 * @param {number} size of the model
 * @param {number} segment
 * @returns {Record<string, number[]>}
 */
const bodies = (size, segment) => ({
  // (offset: f64, buffer: i32, length: i32) -> 0: buffer, offset as i32, length, memory.init
  'wisp.read': [0x20, 1, 0x20, 0, 0xab, 0x20, 2, 0xfc, 8, ...leb(segment), 0, 0x41, 0],
  'wisp.size': [0x44, ...f64(size)],
  'wisp.seconds': [0x44, ...f64(0)], // there is no clock: what is measured takes no time
  'env.emscripten_notify_memory_growth': [],
});

/** @param {number[]} instructions @returns {number[]} a function of the code section, without locals */
function functionOf(instructions) {
  const body = [0, ...instructions, 0x0b];
  return [...leb(body.length), ...body];
}

/**
 * Returns the parts of a module that holds the model and imports nothing.
 * @param {Uint8Array} module wisp-udf-*.wasm
 * @param {Uint8Array} model a GGUF file
 * @returns {Uint8Array[]}
 */
export function udfModule(module, model) {
  const sections = sectionsOf(module);
  const imports = importsOf(sections.get(SECTION.import) ?? new Uint8Array([0]));
  const functions = listOf(sections.get(SECTION.function));
  const code = listOf(sections.get(SECTION.code));
  const data = listOf(sections.get(SECTION.data));
  const known = bodies(model.length, data.count);
  for (const { name } of imports)
    if (!(name in known)) throw new WispError('unsupported', `wisp-udf: imports ${name}`);

  const exports = exportsOf(sections.get(SECTION.export) ?? new Uint8Array([0]));
  const start = exports.find(({ name }) => name === START);
  const kept = exports.filter(({ name }) => !/^_/.test(name) && !/^emscripten_/.test(name));
  if (!start) throw new WispError('format', `wisp-udf: does not export ${START}`);

  /** @type {Map<number, (number[] | Uint8Array)[]>} */
  const changed = new Map([
    [SECTION.function, [leb(imports.length + functions.count), imports.flatMap(({ type }) => leb(type)), functions.rest]], // prettier-ignore
    [SECTION.export, [leb(kept.length), ...kept.map(({ bytes }) => bytes)]],
    [SECTION.start, [leb(start.index)]],
    [SECTION.count, [leb(data.count + 1)]],
    [SECTION.code, [leb(imports.length + code.count), imports.flatMap(({ name }) => functionOf(known[name])), code.rest]], // prettier-ignore
    [SECTION.data, [leb(data.count + 1), data.rest, [1, ...leb(model.length)], model]],
  ]);
  const parts = [module.subarray(0, 8)];
  for (const id of ORDER) {
    const contents = (changed.get(id) ?? (sections.has(id) ? [sections.get(id)] : [])).map((part) =>
      Uint8Array.from(/** @type {Uint8Array} */ (part)),
    );
    if (contents.length === 0) continue;
    const length = contents.reduce((sum, part) => sum + part.length, 0);
    parts.push(Uint8Array.from([id, ...leb(length)]), ...contents);
  }
  return parts;
}
