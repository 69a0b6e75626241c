// SPDX-License-Identifier: Apache-2.0
// Makes wisp-udf-*.wasm, to which a model is only appended, of the module that the linker made (wasm/udf):
//
//     node tools/udf_template.mjs LINKED.wasm OUTPUT.wasm
//
// The result imports nothing, since databases run no other modules. The imports, which are functions, become its first
// functions. So every function keeps its number, and the rest of the code stays as it is. The model is a passive segment,
// from which `wisp.read` copies; it is the end of the last section and empty at first. A custom section in front says
// where the numbers are that change with the model, and has the SQL. js/program/udf-module.js and src/cli/udf_module.c
// write those numbers and the model.
// Source: the WebAssembly Core Specification 2.0, "Binary Format".
import { readFileSync, writeFileSync } from 'node:fs';

const SECTION = { import: 2, function: 3, export: 7, start: 8, code: 10, data: 11, count: 12 };

/** All sections but that of imports, in the order in which they stand. */
const ORDER = [1, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11];

/** The name of the custom section. */
const NAME = 'wisp-udf';

/** The names, arguments and results of the functions. */
const FUNCTIONS = [
  ['embed', 'text String', 'Array(Float32)'],
  ['embed_prompt', 'text String, prompt String', 'Array(Float32)'],
  ['similarity', 'a String, b String', 'Float32'],
];

/** How ClickHouse runs the module, which has a name and is in a file. */
const SQL = [
  `INSERT INTO system.webassembly_modules (name, code)`,
  `  SELECT '{name}', raw_blob FROM file('{file}', 'RawBLOB', 'raw_blob String');`,
  ...FUNCTIONS.flatMap(([own, takes, gives]) => [
    `CREATE FUNCTION ${own} LANGUAGE WASM FROM '{name}' :: '${own}' ARGUMENTS (${takes})`,
    `  RETURNS ${gives} ABI BUFFERED_V1 DETERMINISTIC SETTINGS serialization_format = 'RowBinary';`,
  ]),
  `SET webassembly_udf_max_fuel = 0, webassembly_udf_max_input_block_size = 1024;`,
  '',
].join('\n');

/** Prepares the module's memory. Hosts would not call it as an export; every engine calls a start function. */
const START = '_initialize';

/** @param {number} value a whole number from 0 to 2^32 - 1 @returns {number[]} as LEB128 */
function leb(value) {
  const bytes = [];
  for (; value > 0x7f; value = Math.floor(value / 128)) bytes.push((value % 128) | 0x80);
  return [...bytes, value];
}

/** A number that is written later, of up to 32 bits, takes this many bytes as LEB128. */
const LATER = 5;

/** @param {number} value @returns {number[]} as LEB128 of 5 bytes */
const wideLeb = (value) =>
  Array.from({ length: LATER }, (_, i) => (Math.floor(value / 128 ** i) % 128) | (i < LATER - 1 ? 0x80 : 0)); // prettier-ignore

/** @param {number} value @returns {number[]} */
const u32 = (value) => [...new Uint8Array(new Uint32Array([value]).buffer)];

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
  if (reader.take(8).join() !== '0,97,115,109,1,0,0,0') throw new Error('not a WebAssembly module');
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
    if (reader.byte() !== 0) throw new Error(`${name} is not a function`);
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
 * @param {number} segment
 * @returns {Record<string, number[]>}
 */
const bodies = (segment) => ({
  // (offset: f64, buffer: i32, length: i32) -> 0: buffer, offset as i32, length, memory.init
  'wisp.read': [0x20, 1, 0x20, 0, 0xab, 0x20, 2, 0xfc, 8, ...leb(segment), 0, 0x41, 0],
  'wisp.size': [0x44, ...f64(0)], // of the model, and written with it
  'wisp.seconds': [0x44, ...f64(0)], // there is no clock: what is measured takes no time
  'env.emscripten_notify_memory_growth': [],
});

/** The bytes of a function before its instructions: its size, and that it has no locals. */
const BEFORE = 2;

/** @param {number[]} instructions @returns {number[]} a function of the code section, without locals */
function functionOf(instructions) {
  const body = [0, ...instructions, 0x0b];
  return [...leb(body.length), ...body];
}

/** @param {Uint8Array} module @returns {Uint8Array} */
function templateOf(module) {
  const sections = sectionsOf(module);
  const imports = importsOf(sections.get(SECTION.import) ?? new Uint8Array([0]));
  const functions = listOf(sections.get(SECTION.function));
  const code = listOf(sections.get(SECTION.code));
  const data = listOf(sections.get(SECTION.data));
  const known = bodies(data.count);
  for (const { name } of imports) if (!(name in known)) throw new Error(`imports ${name}`);

  const exports = exportsOf(sections.get(SECTION.export) ?? new Uint8Array([0]));
  const start = exports.find(({ name }) => name === START);
  const kept = exports.filter(({ name }) => !/^_/.test(name) && !/^emscripten_/.test(name));
  if (!start) throw new Error(`does not export ${START}`);

  const made = imports.map(({ name }) => functionOf(known[name]));
  const codeCount = leb(imports.length + code.count);
  const sizeFunction = imports.findIndex(({ name }) => name === 'wisp.size');
  const sizeAt = codeCount.length + made.slice(0, sizeFunction).flat().length + BEFORE + 1;

  /** @type {Map<number, (number[] | Uint8Array)[]>} */
  const changed = new Map([
    [SECTION.function, [leb(imports.length + functions.count), imports.flatMap(({ type }) => leb(type)), functions.rest]], // prettier-ignore
    [SECTION.export, [leb(kept.length), ...kept.map(({ bytes }) => bytes)]],
    [SECTION.start, [leb(start.index)]],
    [SECTION.count, [leb(data.count + 1)]],
    [SECTION.code, [codeCount, made.flat(), code.rest]],
    [SECTION.data, [leb(data.count + 1), data.rest, [1], wideLeb(0)]],
  ]);
  const places = [0, 0, 0]; // of the model's size, of the data section's and of the segment's
  const custom = () => [leb(NAME.length), Buffer.from(NAME), places.flatMap(u32), Buffer.from(SQL)];
  const lengthOf = (/** @type {(number[] | Uint8Array)[]} */ parts) =>
    parts.reduce((sum, part) => sum + part.length, 0);
  const customLength = lengthOf(custom());
  let at = 8 + 1 + leb(customLength).length + customLength;
  /** @type {(number[] | Uint8Array)[]} */
  const rest = [];
  for (const id of ORDER) {
    const contents = changed.get(id) ?? (sections.has(id) ? [sections.get(id) ?? []] : []);
    if (contents.length === 0) continue;
    const length = lengthOf(contents);
    const head = [id, ...(id === SECTION.data ? wideLeb : leb)(length)];
    if (id === SECTION.code) places[0] = at + head.length + sizeAt;
    if (id === SECTION.data) places[1] = at + 1;
    rest.push(head, ...contents);
    at += head.length + length;
  }
  places[2] = at - LATER; // the file ends where the model begins
  const parts = [module.subarray(0, 8), [0, ...leb(customLength)], ...custom(), ...rest];
  return Buffer.concat(parts.map((part) => Uint8Array.from(part)));
}

const [input, output] = process.argv.slice(2);
writeFileSync(output, templateOf(readFileSync(input)));
