// SPDX-License-Identifier: Apache-2.0
import { STATUS_CODES, WispError, isEngineLimit, outOfMemory, takeMemory } from '../base/errors.js';
import { LOAD_OPTIONS, checkOption, wantedPredictor, wrong } from '../base/options.js';

/** @typedef {import('../../types/exports.js').Exports} Exports */
/** @typedef {import('../../types/engine.js').EngineOptions} EngineOptions */
/** @typedef {import('../../types/engine.js').ModelReader} ModelReader */
/** @typedef {import('../../types/engine.js').ModelBytes} ModelBytes */
/** @typedef {import('../../types/engine.js').EngineStats} EngineStats */
/** @typedef {import('../../types/index.js').EngineInfo} EngineInfo */
/** @typedef {import('../../types/index.js').EmbedOptions} EmbedOptions */

/** Limits of the groups in which texts go to the module, so that its memory stays small. */
const GROUP_TEXTS = 256;
const GROUP_BYTES = 256 * 1024;

/** The most bytes that an address and a length of a module can count. */
const MOST_BYTES = 2 ** 32 - 1;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * One model in one WebAssembly instance. Every call runs to its end on the calling thread.
 *
 * The module's memory may grow in any call, which detaches all views of it: no view is kept across a
 * call. Addresses arrive as signed numbers; "address >>> 0" makes those beyond 2 GB positive.
 *
 * Members that types/engine.d.ts does not list are for engines that extend this one.
 */
export class Engine {
  /** @type {Exports | undefined} */
  #exports;
  /** Its address. */
  engine = 0;
  /** @type {unknown} the error that reading the model threw in this call */
  #readError;
  /** @type {WispError | undefined} the error that ended the instance */
  #dead;

  /**
   * @param {WebAssembly.Module} module
   * @param {ModelBytes} model
   * @param {EngineOptions} [options]
   * @param {Record<string, any>} [more] imports of the module
   * @returns {Promise<Engine>}
   */
  static async open(module, model, options = {}, { env, ...more } = {}) {
    const engine = new this();
    /** @type {ModelReader | undefined} */
    let source = model instanceof Uint8Array ? memorySource(model) : model;
    const { size, lasting = false } = source;
    const imports = {
      wisp: {
        seconds: () => performance.now() / 1000,
        /** @param {number} offset @param {number} buffer @param {number} length */
        read(offset, buffer, length) {
          try {
            if (!source) throw new Error('the model was read after it was opened');
            source.read(offset, engine.bytes(buffer >>> 0, length));
            return 0;
          } catch (error) {
            engine.#readError = error;
            return 1;
          }
        },
        languages: () => 0, // of modules that generate, which do not ask it to embed
        ...engine.imports(),
      },
      env: { emscripten_notify_memory_growth() {}, ...env },
      ...more,
    };
    const instance = await WebAssembly.instantiate(module, imports).catch((cause) => {
      throw isEngineLimit(cause) ? outOfMemory('an instance of the module', cause) : cause;
    });
    const { memory } = env ?? {};
    engine.#exports = /** @type {Exports} */ (/** @type {unknown} */ ({ memory, ...instance.exports })); // prettier-ignore
    engine.#open(size, lasting, options);
    if (!lasting) source = undefined; // frees the bytes, which the import would keep alive
    return engine;
  }

  /** Further imports of a module of this kind of engine. @returns {Record<string, Function>} */
  imports() {
    return {};
  }

  /**
   * @param {number} size
   * @param {boolean} lasting
   * @param {EngineOptions} options
   */
  #open(size, lasting, options) {
    checkOption(options.sparsity, 'sparsity', LOAD_OPTIONS.sparsity);
    this.call((wasm) => {
      wasm._initialize();
      this.engine = wasm.engine_new() >>> 0;
      if (!this.engine) throw outOfMemory('the module cannot grow');
    });
    try {
      const all = { ...options, predictor: wantedPredictor(options) };
      for (const [name, value] of Object.entries(all)) this.#set(name, value);
      this.check((wasm) => wasm.engine_open(this.engine, size, lasting));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /**
   * @param {string} name of an option
   * @param {any} value undefined for the default
   */
  #set(name, value) {
    this.withText(name, (option) =>
      this.withText(value, (text) =>
        this.check((wasm) => wasm.engine_set(this.engine, option, text, +value)),
      ),
    );
  }

  /** Number of values of an embedding. */
  get dimensions() {
    return this.info().dimensions;
  }

  /** Bytes of the instance's memory. */
  get memoryBytes() {
    return this.call((wasm) => wasm.memory.buffer.byteLength);
  }

  /** @returns {EngineInfo} */
  info() {
    return { ...this.json((wasm) => wasm.engine_info(this.engine)), prompt: this.prompt() };
  }

  /** @returns {EngineStats} */
  stats() {
    return this.json((wasm) => wasm.engine_stats(this.engine));
  }

  /**
   * Sets the share of neurons that the predictor skips, approximately.
   * @param {number} [sparsity] default: the model's
   */
  setSparsity(sparsity) {
    checkOption(sparsity, 'sparsity', LOAD_OPTIONS.sparsity);
    this.#set('sparsity', sparsity);
  }

  /**
   * Returns the text of the model's prompt `name`, or undefined if it has none of that name.
   * Without a name returns the default prompt, or '' if the model has none.
   * @param {string} [name]
   * @returns {string | undefined}
   */
  prompt(name) {
    return this.withText(name, (pointer) =>
      this.call((wasm) => {
        const found = wasm.engine_prompt(this.engine, pointer);
        return found ? this.string(found) : undefined;
      }),
    );
  }

  /**
   * Returns the token ids that the model computes with: special tokens are included, and the ids are
   * truncated to its limit. Lone surrogates are read as U+FFFD.
   * @param {string} text
   * @returns {Int32Array}
   */
  tokenize(text) {
    const capacity = this.info().maxTokens;
    return this.withText(text, (input, length) =>
      this.withBlock(4 + 4 * capacity, (output) => {
        this.check((wasm) =>
          wasm.engine_tokenize(this.engine, input, length, output + 4, capacity, output),
        );
        return this.#numbers(output + 4, this.#numbers(output, 1)[0]).slice();
      }),
    );
  }

  /**
   * Returns the number of token ids that a text has before it is truncated.
   * @param {string} text
   */
  countTokens(text) {
    return this.withText(text, (input, length) =>
      this.withBlock(4, (output) => {
        this.check((wasm) => wasm.engine_count(this.engine, input, length, output));
        return this.#numbers(output, 1)[0];
      }),
    );
  }

  /**
   * @param {number} at
   * @param {number} count
   */
  #numbers(at, count) {
    return new Int32Array(this.alive().memory.buffer, at, count);
  }

  /**
   * Returns a row of `dimensions` values for each text, one after the other. The bits of a row do not
   * depend on the other texts.
   * @param {readonly string[]} texts
   * @param {EmbedOptions} [options]
   * @returns {Float32Array}
   */
  embed(texts, options) {
    const { rows, prompt, dimensions, size } = prepare(this, texts, options);
    this.withText(prompt, (promptPointer) => {
      let first = 0;
      while (first < texts.length) {
        const group = takeGroup(texts, first);
        rows.set(this.#embedGroup(group, promptPointer, dimensions, size), first * size);
        first += group.length;
      }
    });
    return rows;
  }

  /** Frees the model and the instance. May be called more than once. */
  close() {
    const engine = this.engine;
    this.engine = 0;
    try {
      if (engine && this.#exports) this.call((wasm) => wasm.engine_free(engine));
    } finally {
      this.#exports = undefined;
      this.#dead ??= new WispError('closed', 'the engine is closed');
    }
  }

  /**
   * @param {Uint8Array[]} group
   * @param {number} prompt
   * @param {number} dimensions
   * @param {number} size
   * @returns {Float32Array}
   */
  #embedGroup(group, prompt, dimensions, size) {
    const table = 8 * group.length;
    const length = group.reduce((sum, bytes) => sum + bytes.length, table);
    return this.withBlock(length, (input) =>
      this.withBlock(4 * size * group.length, (output) => {
        this.writeTexts(input, length, group);
        this.check((wasm) =>
          wasm.engine_embed(this.engine, input, group.length, prompt, dimensions, output),
        );
        const buffer = this.alive().memory.buffer;
        return new Float32Array(buffer, output, size * group.length).slice();
      }),
    );
  }

  /**
   * Writes a table of addresses and lengths, and after it the texts.
   * @param {number} block
   * @param {number} length
   * @param {Uint8Array[]} group
   */
  writeTexts(block, length, group) {
    const view = this.bytes(block, length);
    const table = new Uint32Array(view.buffer, block, 2 * group.length);
    let at = 8 * group.length;
    group.forEach((bytes, i) => {
      view.set(bytes, at);
      table[2 * i] = block + at;
      table[2 * i + 1] = bytes.length;
      at += bytes.length;
    });
  }

  /** @returns {Exports} */
  alive() {
    if (!this.#exports) throw this.#dead ?? new WispError('closed', 'the engine is closed');
    return this.#exports;
  }

  /**
   * Runs `body` with the exports. After a trap the instance is in an unknown state and is dropped.
   * @template T
   * @param {(wasm: Exports) => T} body
   * @returns {T}
   */
  call(body) {
    const wasm = this.alive();
    try {
      return body(wasm);
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError) && !isEngineLimit(error)) throw error;
      const { message } = /** @type {Error} */ (error);
      this.#dead = new WispError('trap', `the WebAssembly instance failed: ${message}`, {
        cause: error,
      });
      this.#exports = undefined;
      throw this.#dead;
    }
  }

  /**
   * Runs a function that returns a wisp_status and throws if it is not 0.
   * @param {(wasm: Exports) => number} body
   */
  check(body) {
    this.#readError = undefined;
    const status = this.call(body);
    if (status === 0) return;
    const wasm = this.alive();
    const code = STATUS_CODES[status];
    throw new WispError(
      code === undefined || code === 'ok' ? 'trap' : code,
      this.string(wasm.engine_error_message(this.engine)),
      { field: this.string(wasm.engine_error_field(this.engine)), cause: this.#readError },
    );
  }

  /**
   * @template T
   * @param {number} bytes
   * @param {(block: number) => T} body
   * @returns {T}
   */
  withBlock(bytes, body) {
    // The module would take the rest of a division by 2^32.
    if (bytes > MOST_BYTES)
      throw outOfMemory(`${bytes} bytes, and a module has at most ${MOST_BYTES}`);
    const block = this.call((wasm) => wasm.allocate(bytes) >>> 0);
    if (!block) throw outOfMemory(`the module cannot grow for ${bytes} bytes`);
    try {
      return body(block);
    } finally {
      if (this.#exports) this.call((wasm) => wasm.release(block));
    }
  }

  /**
   * Runs `body` with the address of the terminated text and its bytes, or with 0 for undefined.
   * @template T
   * @param {string | undefined} text
   * @param {(pointer: number, length: number) => T} body
   * @returns {T}
   */
  withText(text, body) {
    if (text === undefined) return body(0, 0);
    const bytes = encode(text);
    return this.withBlock(bytes.length + 1, (block) => {
      const view = this.bytes(block, bytes.length + 1);
      view.set(bytes);
      view[bytes.length] = 0;
      return body(block, bytes.length);
    });
  }

  /**
   * @param {number} pointer
   * @param {number} length
   */
  bytes(pointer, length) {
    return new Uint8Array(this.alive().memory.buffer, pointer, length);
  }

  /** @param {(wasm: Exports) => number} body writes a text */
  json(body) {
    const text = this.call(body);
    if (!text) throw outOfMemory('the module cannot grow');
    return JSON.parse(this.string(text));
  }

  /** @param {number} pointer of a terminated string */
  string(pointer) {
    const bytes = new Uint8Array(this.alive().memory.buffer);
    const start = pointer >>> 0;
    return decoder.decode(bytes.slice(start, bytes.indexOf(0, start)));
  }
}

/**
 * Checks the options and makes room for the rows.
 * @param {{ dimensions: number, prompt(name: string): string | undefined }} engine
 * @param {readonly string[]} texts
 * @param {EmbedOptions} [options]
 */
export function prepare(engine, texts, { prompt, dimensions = 0 } = {}) {
  const most = engine.dimensions;
  if (!(Number.isInteger(dimensions) && dimensions >= 0 && dimensions <= most)) {
    const message = `dimensions: ${dimensions} is not a whole number from 0 to ${most}`;
    throw new WispError('argument', message, { field: 'dimensions' });
  }
  if (prompt?.includes('\0')) {
    // The module would use the text before it.
    throw wrong('prompt', 'contains a NUL');
  }
  const size = dimensions || most;
  const rows = takeMemory(`${texts.length} rows`, () => new Float32Array(texts.length * size));
  const named = prompt ? engine.prompt(prompt) : undefined;
  if (prompt && named === undefined && /^[\w-]+$/.test(prompt)) {
    const name = prompt.slice(0, 99);
    throw new WispError(
      'not_found',
      `prompt: the model has no prompt '${name}'. The text of a prompt has a space or a mark, as ` +
        `in '${name}: '`,
      { field: 'prompt' },
    );
  }
  return { rows, prompt: named ?? prompt, dimensions, size };
}

/** @param {string} text */
export const encode = (text) =>
  takeMemory(`the bytes of ${text.length} characters`, () => encoder.encode(text));

/**
 * @param {Uint8Array} bytes
 * @returns {ModelReader}
 */
function memorySource(bytes) {
  return {
    size: bytes.length,
    lasting: typeof SharedArrayBuffer === 'function' && bytes.buffer instanceof SharedArrayBuffer,
    read: (offset, into) => into.set(bytes.subarray(offset, offset + into.length)),
  };
}

/**
 * Encodes the next texts: as many as fit in a group, but at least one.
 * @param {readonly string[]} texts
 * @param {number} first
 * @returns {Uint8Array[]}
 */
export function takeGroup(texts, first) {
  /** @type {Uint8Array[]} */
  const group = [];
  let bytes = 0;
  for (let i = first; i < texts.length && group.length < GROUP_TEXTS && bytes < GROUP_BYTES; i++) {
    const encoded = encode(texts[i]);
    group.push(encoded);
    bytes += encoded.length;
  }
  return group;
}
