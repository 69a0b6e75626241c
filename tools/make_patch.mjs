// SPDX-License-Identifier: Apache-2.0
// Writes the patch that makes a calibrated model of the plain one (web-demo/patch.js), so that the package need not have
// both. What a calibrated file has of the plain one is copied: tensors of the same name, rows of token embeddings in
// another order, and neurons, which are a row of W_up and a column of W_down. Both matrices must be Q8_0.
//
//   node tools/make_patch.mjs PLAIN CALIBRATED OUTPUT
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { STEP, applyPatch } from '../web-demo/patch.js';

const [plainPath, calibratedPath, output] = process.argv.slice(2);
if (!output) throw new Error('usage: node tools/make_patch.mjs PLAIN CALIBRATED OUTPUT');

/** Blocks of Q8_0: a scale of two bytes, and as many quants as values. */
const BLOCK = { values: 32, scale: 2, bytes: 34 };

/** In the header, which has the vocabulary, parts of at least so many bytes are looked for. */
const HEADER_PART = 64;

/** @typedef {{ name: string, type: string, shape: number[], offset: number, bytes: number }} Tensor */

/** @param {string} path */
function open(path) {
  const program = fileURLToPath(new URL('../build/wisp', import.meta.url));
  const options = /** @type {const} */ ({ encoding: 'utf8', maxBuffer: 1 << 28 });
  const about = JSON.parse(execFileSync(program, ['inspect', '--format', 'json', path], options));
  /** @type {Tensor[]} */
  const tensors = about.tensors;
  const start = Math.min(...tensors.map(({ offset }) => offset));
  const named = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return { data: readFileSync(path), tensors, named, start };
}

const plain = open(plainPath);
const calibrated = open(calibratedPath);

/** @type {Buffer[]} */
const parts = [];
/** @param {number[]} numbers */
function put(...numbers) {
  for (let n of numbers) {
    const bytes = [];
    for (; n >= 128; n = Math.floor(n / 128)) bytes.push((n % 128) + 128);
    parts.push(Buffer.from([...bytes, n]));
  }
}

/** The last step, if it is a copy that the next may continue. */
let copying = { start: 0, length: 0 };
function endCopy() {
  if (copying.length > 0) put(STEP.copy, copying.start, copying.length);
  copying = { start: 0, length: 0 };
}
/** @param {number} start @param {number} length */
function copy(start, length) {
  if (copying.length > 0 && copying.start + copying.length === start) copying.length += length;
  else {
    endCopy();
    copying = { start, length };
  }
}
/** @param {Buffer} bytes */
function literal(bytes) {
  endCopy();
  if (bytes.length === 0) return;
  put(STEP.literal, bytes.length);
  parts.push(bytes);
}
/** @param {number} start @param {number} stride @param {number} size @param {number} count */
function spread(start, stride, size, count) {
  endCopy();
  put(STEP.spread, start, stride, size, count);
}

/** @param {Tensor} tensor */
const bytesOf = ({ offset, bytes }, file = calibrated) =>
  file.data.subarray(offset, offset + bytes);

/** Places of rows by their bytes. @param {Tensor} tensor @param {number} size of a row */
function rowsOf({ offset, bytes }, size) {
  const places = new Map();
  for (let at = offset; at < offset + bytes; at += size)
    places.set(plain.data.toString('latin1', at, at + size), at);
  return places;
}

/** @param {string} name of a tensor of the plain file */
function own(name) {
  const tensor = plain.named.get(name);
  if (!tensor) throw new Error(`${plainPath}: it has no tensor ${name}`);
  return tensor;
}

function putHeader() {
  const { data, start } = calibrated;
  const places = new Map();
  for (let at = 0; at + HEADER_PART <= plain.start; at += HEADER_PART)
    places.set(plain.data.toString('latin1', at, at + HEADER_PART), at);
  let done = 0;
  for (let at = 0; at + HEADER_PART <= start; at++) {
    const found = places.get(data.toString('latin1', at, at + HEADER_PART));
    if (found === undefined) continue;
    let length = HEADER_PART;
    while (at + length < start && data[at + length] === plain.data[found + length]) length++;
    literal(data.subarray(done, at));
    copy(found, length);
    done = at + length;
    at = done - 1;
  }
  literal(data.subarray(done, start));
}

/** @param {Tensor} tensor token_embd.hot or .cold */
function putTokens({ offset, bytes }) {
  const all = own('token_embd.weight');
  const size = all.bytes / Number(all.shape[0]);
  const places = rowsOf(all, size);
  for (let at = offset; at < offset + bytes; at += size)
    copy(places.get(calibrated.data.toString('latin1', at, at + size)), size);
}

/** @param {Tensor} tensor blk.L.ffn_neurons.hot or .cold */
function putNeurons({ name, offset, bytes }) {
  const [, layer] = /^blk\.(\d+)\./.exec(name) ?? [];
  const [up, down] = ['up', 'down'].map((which) => own(`blk.${layer}.ffn_${which}.weight`));
  const [neurons, hidden] = up.shape.map(Number);
  const [upRow, downRow] = [up.bytes / neurons, down.bytes / hidden];
  const places = rowsOf(up, upRow);
  for (let at = offset; at < offset + bytes; at += upRow + hidden) {
    const found = places.get(calibrated.data.toString('latin1', at, at + upRow));
    const i = (found - up.offset) / upRow;
    const quant = Math.floor(i / BLOCK.values) * BLOCK.bytes + BLOCK.scale + (i % BLOCK.values);
    copy(found, upRow);
    spread(down.offset + quant, downRow, 1, hidden);
  }
}

/** @param {Tensor} tensor blk.L.ffn_down_scales */
function putScales({ name, bytes }) {
  const { offset } = own(name.replace('_scales', '.weight'));
  spread(offset, BLOCK.bytes, BLOCK.scale, bytes / BLOCK.scale);
}

/** @param {Tensor} tensor */
function putTensor(tensor) {
  const same = plain.named.get(tensor.name);
  if (same && bytesOf(same, plain).equals(bytesOf(tensor))) copy(same.offset, tensor.bytes);
  else if (/^token_embd\.(hot|cold)$/.test(tensor.name)) putTokens(tensor);
  else if (/\.ffn_neurons\.(hot|cold)$/.test(tensor.name)) putNeurons(tensor);
  else if (tensor.name.endsWith('.ffn_down_scales')) putScales(tensor);
  else literal(bytesOf(tensor));
}

put(calibrated.data.length);
putHeader();
let end = calibrated.start;
for (const tensor of [...calibrated.tensors].sort((a, b) => a.offset - b.offset)) {
  literal(calibrated.data.subarray(end, tensor.offset)); // alignment
  putTensor(tensor);
  end = tensor.offset + tensor.bytes;
}
literal(calibrated.data.subarray(end));
put(STEP.end);

const patch = Buffer.concat(parts);
if (!calibrated.data.equals(applyPatch(plain.data, patch)))
  throw new Error(`${calibratedPath}: the patch does not make it`);
writeFileSync(output, gzipSync(patch, { level: 9 }));
