// SPDX-License-Identifier: Apache-2.0
import { WispError, outOfMemory, packError, takeMemory } from '../base/errors.js';
import { LOAD_OPTIONS } from '../base/options.js';
import { BEAM_OPTIONS, CHAT_OPTIONS, nameInC } from '../base/text-options.js';
import { encode } from './engine.js';
import { Languages } from './languages.js';
import { TeamEngine } from './team-engine.js';

/** @typedef {import('../../types/exports.js').TextExports} TextExports */

/** Options that go to C as a number. */
const NUMBERS = Object.entries(CHAT_OPTIONS).filter(([, { is }]) =>
  /number|whole|flag/.test(is ?? ''),
);

/** The numbers of the parts of a description. */
const [TEXT, NUMBER, STOP, STOP_IDS, BIAS, GRAMMAR, SCHEMA, REPLY, PROMPT] = Array(9).keys();

/**
 * Describes texts: parts, each its number, the number of its bytes, and these. Numbers have their low byte first.
 * @param {readonly import('../../types/protocol.js').WantedText[]} texts whose options have been checked
 * @returns {Uint8Array}
 */
export function describe(texts) {
  /** @type {[number, Uint8Array][]} */
  const parts = [];
  const put = (/** @type {number} */ part, /** @type {string | Uint8Array} */ value = '') =>
    void parts.push([part, typeof value === 'string' ? encode(value) : value]);
  for (const { prompt, conversation, options } of texts) {
    put(TEXT);
    for (const [name] of NUMBERS) {
      const value = options[/** @type {'seed'} */ (name)];
      if (value === undefined) continue;
      const bytes = encode(`${' '.repeat(8)}${nameInC(name)}`);
      new DataView(bytes.buffer, bytes.byteOffset).setFloat64(0, Number(value), true);
      put(NUMBER, bytes);
    }
    const { stop, stopTokens, logitBias, grammar, jsonSchema } = options;
    for (const each of stop) put(STOP, each);
    const ids = new DataView(new ArrayBuffer(4 * stopTokens.length));
    stopTokens.forEach((id, i) => ids.setInt32(4 * i, id, true));
    put(STOP_IDS, bytesOf(ids));
    const pairs = new DataView(new ArrayBuffer(8 * logitBias.length));
    logitBias.forEach(([id, value], i) => {
      pairs.setInt32(8 * i, id, true);
      pairs.setFloat32(8 * i + 4, value, true);
    });
    put(BIAS, bytesOf(pairs));
    if (grammar !== undefined) put(GRAMMAR, grammar);
    else if (jsonSchema !== undefined) put(SCHEMA, jsonSchema);
    if (conversation !== undefined) put(REPLY, conversation);
    else put(PROMPT, prompt);
  }
  const size = parts.reduce((sum, [, { length }]) => sum + 8 + length, 0);
  const description = takeMemory(`texts of ${size} bytes`, () => new Uint8Array(size));
  const view = new DataView(description.buffer);
  let at = 0;
  for (const [part, bytes] of parts) {
    view.setUint32(at, part, true);
    view.setUint32(at + 4, bytes.length, true);
    description.set(bytes, at + 8);
    at += 8 + bytes.length;
  }
  return description;
}

/**
 * Returns an error with JavaScript's name of an option instead of C's.
 * @param {unknown} error
 */
export function nameOption(error) {
  if (!(error instanceof WispError)) return error;
  const { code, message, cause } = error;
  /** @type {Record<string, import('../base/text-options.js').TextOption>} */
  const options = { ...LOAD_OPTIONS, ...CHAT_OPTIONS, ...BEAM_OPTIONS };
  const [field] =
    Object.entries(options).find(([name, { inC = nameInC(name) }]) => inC === error.field) ?? [];
  return field ? new WispError(code, message.replace(error.field, field), { field, cause }) : error;
}

/**
 * Names the options in the errors of texts that failed alone.
 * @template {Partial<import('../../types/protocol.js').Written>} T
 * @param {T} written
 * @returns {T}
 */
export function nameFailures(written) {
  for (const result of written.results ?? []) {
    if (!result.error) continue;
    const { code, field } = result.error;
    result.error = packError(nameOption(new WispError(code, result.error.message, { field })));
  }
  return written;
}

/**
 * @param {number} first
 * @param {number} tokens
 */
export function checkFirst(first, tokens) {
  if (first < tokens) return;
  const message = `first: ${first}, but there are ${tokens} tokens, and the first has none before it`;
  throw new WispError('argument', message, { field: 'first' });
}

/** An engine whose model continues texts, in a module wisp-generate-*.wasm. */
export class TextEngine extends TeamEngine {
  #languages = new Languages();

  imports() {
    return {
      languages: (/** @type {[number, number, number, number]} */ ...of) =>
        this.#languages.answer(this.alive(), ...of),
    };
  }

  /** Bytes of the instances' memory. */
  get memoryBytes() {
    return super.memoryBytes + this.#languages.memoryBytes;
  }

  /**
   * Begins texts. While they are being written the engine can do nothing else.
   * @param {import('../../types/protocol.js').WantedText[]} texts whose options have been checked
   * @param {number} [atOnce] how many are computed at a time
   * @param {WebAssembly.Module} [languages] wisp-languages.wasm, if a text has messages, a grammar or a schema
   */
  async write(texts, atOnce = 0, languages = undefined) {
    if (languages) await this.#languages.load(languages);
    return this.#start(
      (wasm) => wasm.writing_new(this.engine),
      (writing) =>
        this.#withBytes(describe(texts), (bytes, length) =>
          this.checkText((wasm) => wasm.writing_open(writing, bytes, length, atOnce)),
        ),
      (wasm, writing, seconds) => wasm.writing_run(writing, seconds),
      (wasm, writing) => wasm.writing_free(writing),
    );
  }

  /**
   * Begins a search for the likeliest texts, likewise.
   * @param {import('../../types/protocol.js').BeamsRequest} wanted
   */
  search({ prompt, beams, maxTokens, lengthPenalty, stopIds }) {
    return this.#start(
      (wasm) => wasm.search_new(this.engine),
      (search) =>
        this.#withBytes(encode(prompt), (bytes, length) =>
          this.#withBytes(bytesOf(stopIds), (ids) =>
            this.checkText((wasm) =>
              wasm.search_open(
                ...[search, bytes, length, beams, maxTokens, lengthPenalty, ids, stopIds.length],
              ),
            ),
          ),
        ),
      (wasm, search, seconds) => wasm.search_run(search, seconds),
      (wasm, search) => wasm.search_free(search),
    );
  }

  /**
   * @param {(wasm: TextExports) => number} make returns 0 if there is no memory
   * @param {(work: number) => void} open
   * @param {(wasm: TextExports, work: number, seconds: number) => number} run
   * @param {(wasm: TextExports, work: number) => void} free
   */
  #start(make, open, run, free) {
    const work = this.text(make) >>> 0;
    if (!work) throw outOfMemory('the module cannot grow');
    const close = () => this.text((wasm) => free(wasm, work));
    try {
      open(work);
    } catch (error) {
      close();
      throw error;
    }
    return {
      /**
       * Goes on for about so many seconds.
       * @param {number} seconds
       * @returns {any} what came of it, and whether it has `ended`
       */
      run: (seconds) => {
        this.checkText((wasm) => run(wasm, work, seconds));
        return nameFailures(this.json(() => this.text((wasm) => wasm.engine_text(this.engine))));
      },
      close,
    };
  }

  /** @returns {import('../../types/generate.js').TextEngineInfo} */
  info() {
    const source = this.text((wasm) => wasm.engine_chat_template(this.engine));
    return {
      ...super.info(),
      chatTemplate: source ? this.string(source) : undefined,
      cacheType: /** @type {any} */ (
        this.string(this.text((wasm) => wasm.engine_cache_type(this.engine)))
      ),
    };
  }

  /**
   * Returns the log-probabilities of the tokens from `first` on, each given all before it.
   * @param {string | Int32Array} text or its token ids
   * @param {number} first
   * @returns {Float32Array}
   */
  score(text, first) {
    const ids = this.#idsOf(text);
    checkFirst(first, ids.length);
    return this.#withBytes(bytesOf(ids), (block) =>
      this.withBlock(4 * ids.length, (output) => {
        this.checkText((wasm) => wasm.engine_score(this.engine, block, ids.length, first, output));
        const { buffer } = this.alive().memory;
        return new Float32Array(buffer, output, ids.length - first).slice();
      }),
    );
  }

  /**
   * Returns the token ids of a text, as a prompt has them.
   * @param {string} text
   * @returns {Int32Array}
   */
  tokenize(text) {
    return this.#withBytes(encode(text), (bytes, length) => {
      // A text has hardly more tokens than bytes; if it has, the count says how many.
      for (let capacity = length + 8; ;) {
        const ids = this.withBlock(4 + 4 * capacity, (output) => {
          this.check((wasm) =>
            wasm.engine_tokenize(this.engine, bytes, length, output + 4, capacity, output),
          );
          const { buffer } = this.alive().memory;
          const count = new Uint32Array(buffer, output, 1)[0];
          if (count > capacity) return void (capacity = count);
          return new Int32Array(buffer, output + 4, count).slice();
        });
        if (ids) return ids;
      }
    });
  }

  /**
   * Returns the text that token ids stand for.
   * @param {Int32Array} ids
   * @param {boolean} continues a text, whose last word they do not
   * @returns {string}
   */
  detokenize(ids, continues) {
    return this.#withBytes(bytesOf(ids), (block) => {
      this.checkText((wasm) => wasm.engine_detokenize(this.engine, block, ids.length, continues));
      return this.json(() => this.text((wasm) => wasm.engine_text(this.engine)));
    });
  }

  /**
   * Returns the logits that follow each token: a row of vocabularySize values for each.
   * @param {string | Int32Array} text or its token ids
   * @returns {Float32Array}
   */
  logits(text) {
    const ids = this.#idsOf(text);
    const values = ids.length * this.info().vocabularySize;
    return this.#withBytes(bytesOf(ids), (block) =>
      this.withBlock(4 * values, (output) => {
        this.checkText((wasm) => wasm.engine_logits(this.engine, block, ids.length, output));
        const { buffer } = this.alive().memory;
        return takeMemory(`${values} logits`, () =>
          new Float32Array(buffer, output, values).slice(),
        );
      }),
    );
  }

  /** @param {string | Int32Array} text */
  #idsOf(text) {
    return typeof text === 'string' ? this.tokenize(text) : text;
  }

  /**
   * Returns what has been computed of the last texts, as bytes for loadState.
   * @returns {Uint8Array}
   */
  saveState() {
    const save = (/** @type {number} */ block, /** @type {number} */ capacity) =>
      this.withBlock(4, (size) => {
        this.checkText((wasm) => wasm.engine_save(this.engine, block, capacity, size));
        return new Uint32Array(this.alive().memory.buffer, size, 1)[0];
      });
    const size = save(0, 0);
    return this.withBlock(size, (block) => {
      save(block, size);
      return takeMemory(`a state of ${size} bytes`, () => this.bytes(block, size).slice());
    });
  }

  /** @param {Uint8Array} state */
  loadState(state) {
    this.#withBytes(state, (bytes, size) =>
      this.checkText((wasm) => wasm.engine_load(this.engine, bytes, size)),
    );
  }

  /**
   * @template T
   * @param {(wasm: TextExports) => T} body
   * @returns {T}
   */
  text(body) {
    return this.call((wasm) => body(/** @type {TextExports} */ (wasm)));
  }

  /**
   * Names options of the module as those of this class in errors.
   * @param {(wasm: TextExports) => number} body
   */
  checkText(body) {
    try {
      this.check((wasm) => body(/** @type {TextExports} */ (wasm)));
    } catch (error) {
      throw nameOption(error);
    }
  }

  /**
   * @template T
   * @param {Uint8Array} bytes
   * @param {(block: number, length: number) => T} body
   * @returns {T}
   */
  #withBytes(bytes, body) {
    return this.withBlock(bytes.length, (block) => {
      this.bytes(block, bytes.length).set(bytes);
      return body(block, bytes.length);
    });
  }
}

/** @param {ArrayBufferView} view */
const bytesOf = ({ buffer, byteOffset, byteLength }) =>
  new Uint8Array(buffer, byteOffset, byteLength);
