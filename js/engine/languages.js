// SPDX-License-Identifier: Apache-2.0
// The module that reads chat templates, grammars and schemas. An engine's module asks it in the middle of a call.
import { STATUS_CODES, isEngineLimit, outOfMemory } from '../base/errors.js';

/** @typedef {import('../../types/exports.js').Exports} Exports */
/** @typedef {import('../../types/exports.js').LanguageExports} LanguageExports */

/** Memory of a module never shrinks: an instance whose memory has grown so far does not serve again. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Memory for each byte of a conversation's JSON: trees, characters of 4 bytes, and texts that double as they grow. */
const BYTES_FOR_BYTE = 48;

/** The statuses that the engine's module reads if this module is not loaded or lacks memory. */
const NOT_LOADED = STATUS_CODES.indexOf('unsupported');
const NO_MEMORY = STATUS_CODES.indexOf('memory');

/** An instance of the module. */
export class Languages {
  /** @type {LanguageExports | undefined} */
  #exports;

  /**
   * Gets ready to answer.
   * @param {WebAssembly.Module} module
   */
  async load(module) {
    if (this.#exports && this.memoryBytes <= MOST_BYTES) return;
    const imports = { env: { emscripten_notify_memory_growth() {} } };
    const { exports } = await WebAssembly.instantiate(module, imports).catch((cause) => {
      throw isEngineLimit(cause) ? outOfMemory('an instance of the module', cause) : cause;
    });
    this.#exports = /** @type {LanguageExports} */ (/** @type {unknown} */ (exports));
    this.#exports._initialize();
  }

  get memoryBytes() {
    return this.#exports?.memory.buffer.byteLength ?? 0;
  }

  /**
   * The import of an engine's module. Copies the texts to this module, and its answer to a block of the engine's.
   * @param {Exports} engine
   * @param {number} language
   * @param {number} texts a table of n addresses and lengths
   * @param {number} n
   * @param {number} answer where the address and the length of the answer go
   * @returns {number} a wisp_status
   */
  answer(engine, language, texts, n, answer) {
    const own = this.#exports;
    if (!own) return NOT_LOADED;
    const table = new Uint32Array(engine.memory.buffer, texts >>> 0, 2 * n).slice();
    const head = 8 * (n + 1); // the same table, and a place for the answer
    const size = table.reduce((sum, length, i) => (i % 2 ? sum + length + 1 : sum), head);
    growFor(own.memory, size);
    const block = own.allocate(size) >>> 0;
    if (!block) return NO_MEMORY;
    try {
      const place = block + head - 8;
      copyTexts(engine.memory, table, own.memory, block, head);
      const status = own.answer(language, block, n, place);
      const [from, length] = new Uint32Array(own.memory.buffer, place, 2);
      const into = engine.allocate(length) >>> 0;
      if (!into) return NO_MEMORY;
      const bytes = new Uint8Array(own.memory.buffer, from, length);
      new Uint8Array(engine.memory.buffer, into, length).set(bytes);
      new Uint32Array(engine.memory.buffer, answer >>> 0, 2).set([into, length]);
      return status;
    } finally {
      own.release(block);
    }
  }
}

/**
 * Makes room for what is made of so many bytes. The module itself asks for a page after the other, each of which takes the
 * engine a third of a millisecond. Memory that is never touched costs nothing.
 * @param {WebAssembly.Memory} memory
 * @param {number} bytes
 */
function growFor(memory, bytes) {
  const wanted = Math.min(BYTES_FOR_BYTE * bytes, MOST_BYTES) - memory.buffer.byteLength;
  if (wanted <= 0) return;
  try {
    memory.grow(Math.ceil(wanted / 65536));
  } catch {
    // There may still be room for the pages that it really needs.
  }
}

/**
 * Copies the texts of a table to a block: a table of the copies, and from `at` on these, each with a 0 behind it. A text
 * without an address has none there.
 * @param {WebAssembly.Memory} from
 * @param {Uint32Array} table
 * @param {WebAssembly.Memory} to
 * @param {number} block
 * @param {number} at
 */
function copyTexts(from, table, to, block, at) {
  const copies = new Uint32Array(to.buffer, block, table.length);
  for (let i = 0; i < table.length; i += 2) {
    const [address, length] = table.subarray(i, i + 2);
    copies.set([address && block + at, length], i);
    const bytes = new Uint8Array(to.buffer, block + at, length + 1);
    bytes.set(new Uint8Array(from.buffer, address, length));
    bytes[length] = 0;
    at += length + 1;
  }
}
