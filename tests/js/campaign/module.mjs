// SPDX-License-Identifier: Apache-2.0
// The engine's module with a fault at one growth of its memory.

/** Instructions before the module's only memory.grow: i32.const 16, i32.shr_u make pages of bytes. */
const GROW = [0x41, 16, 0x76, 0x40, 0];
const MEMORY_GROW_BYTES = 2;

const GLOBALS = 6;
const CODE = 10;

/** Faults, by the code that decides from the countdown, an i32 on the stack, and what it asks for. */
const FAULTS = {
  // countdown == 0 ? 65,536 pages more : as many as asked for
  once: [0x45, 0x41, 16, 0x74, 0x72],
  // countdown < 1 ? 65,536 pages more : as many as asked for
  always: [0x41, 1, 0x48, 0x41, 16, 0x74, 0x72],
  // if (countdown == 0) unreachable
  trap: [0x45, 0x04, 0x40, 0x00, 0x0b],
};

/**
 * Returns a module that counts the growths of its memory. Growth `n`, counted from 1, fails, and later
 * ones do not (once); it and all later ones fail (always); or it traps.
 * @param {Uint8Array} module an engine's
 * @param {keyof typeof FAULTS} fault
 * @param {number} n
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function failAtGrowth(module, fault, n) {
  const parts = [...module.subarray(0, 8)];
  const result = [new Uint8Array(parts)];
  let countdown = 0;
  for (const { id, body } of sections(module)) {
    let changed = body;
    if (id === GLOBALS) [changed, countdown] = addGlobal(body, n);
    if (id === CODE) changed = changeGrowth(body, countdown, FAULTS[fault]);
    result.push(new Uint8Array([id, ...unsigned(changed.length)]), changed);
  }
  return join(result);
}

/** @param {Uint8Array} module */
function* sections(module) {
  for (let at = 8; at < module.length;) {
    const id = module[at];
    const size = readUnsigned(module, at + 1);
    yield { id, body: module.slice(size.end, size.end + size.value) };
    at = size.end + size.value;
  }
}

/**
 * Adds a variable of type i32.
 * @param {Uint8Array} body of the section of globals
 * @param {number} value
 * @returns {[Uint8Array<ArrayBuffer>, number]} the section and the variable's index
 */
function addGlobal(body, value) {
  const count = readUnsigned(body, 0);
  const variable = [0x7f, 1, 0x41, ...signed(value), 0x0b];
  const rest = body.subarray(count.end);
  return [new Uint8Array([...unsigned(count.value + 1), ...rest, ...variable]), count.value];
}

/**
 * Puts code before memory.grow that counts down and decides what happens.
 * @param {Uint8Array} body of the section of code
 * @param {number} countdown index of the global
 * @param {number[]} fault
 * @returns {Uint8Array<ArrayBuffer>}
 */
function changeGrowth(body, countdown, fault) {
  const index = unsigned(countdown);
  const inserted = [0x23, ...index, 0x41, 1, 0x6b, 0x24, ...index, 0x23, ...index, ...fault];
  const functions = readUnsigned(body, 0);
  const result = [new Uint8Array(unsigned(functions.value))];
  let found = 0;
  for (let at = functions.end; at < body.length;) {
    const size = readUnsigned(body, at);
    const end = size.end + size.value;
    const code = body.slice(size.end, end);
    const grow = code.findIndex((_, i) => GROW.every((byte, k) => code[i + k] === byte));
    if (grow < 0) {
      result.push(body.slice(at, end));
    } else {
      found++;
      const split = grow + GROW.length - MEMORY_GROW_BYTES;
      result.push(new Uint8Array(unsigned(code.length + inserted.length)));
      result.push(code.slice(0, split), new Uint8Array(inserted), code.slice(split));
    }
    at = end;
  }
  if (found !== 1) throw new Error(`${found} functions of the module grow its memory, not one`);
  return join(result);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 */
function readUnsigned(bytes, at) {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    value += (bytes[at] & 127) * 2 ** shift;
    if (bytes[at++] < 128) return { value, end: at };
  }
}

/** @param {number} value */
function unsigned(value) {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return [...bytes, value];
}

/** @param {number} value from 0 */
function signed(value) {
  const bytes = unsigned(value);
  const last = bytes[bytes.length - 1];
  return last < 64 ? bytes : [...bytes.slice(0, -1), last + 128, 0]; // bit 6 is the sign
}

/** @param {Uint8Array[]} parts */
function join(parts) {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
