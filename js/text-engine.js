// SPDX-License-Identifier: Apache-2.0
import { encode } from './engine.js';
import { WispError, outOfMemory, takeMemory } from './errors.js';
import { TeamEngine } from './team-engine.js';

/** @typedef {import('../types/exports.js').TextExports} TextExports */

/** Options that are a number, with the module's names for them. */
const NUMBERS = {
  maxTokens: 'max_tokens',
  temperature: 'temperature',
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  typicalP: 'typical_p',
  temperatureLast: 'temperature_last',
  noThinking: 'no_thinking',
  repetitionPenalty: 'repetition_penalty',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  penaltyWindow: 'penalty_window',
  seed: 'seed',
  logprobs: 'logprobs',
  contextShift: 'context_shift',
  keep: 'keep_tokens',
};

/** The module's names of the options that its errors may name. */
const NAMES = {
  ...NUMBERS,
  logitBias: 'bias',
  stopTokens: 'stop_id',
  jsonSchema: 'json_schema',
  lengthPenalty: 'length_penalty',
};

/** An engine whose model continues texts, in a module wisp-generate-*.wasm. */
export class TextEngine extends TeamEngine {
  /**
   * Begins texts. While they are being written the engine can do nothing else.
   * @param {import('../types/protocol.js').WantedText[]} texts whose options have been checked
   * @param {number} [atOnce] how many are computed at a time
   */
  write(texts, atOnce = 0) {
    return this.#start(
      (wasm) => wasm.writing_new(this.engine),
      (writing) => {
        for (const { prompt, options } of texts) this.#addText(writing, prompt, options);
        this.checkText((wasm) => wasm.writing_open(writing, atOnce));
      },
      (wasm, writing, seconds) => wasm.writing_run(writing, seconds),
      (wasm, writing) => wasm.writing_free(writing),
    );
  }

  /**
   * Begins a search for the likeliest texts, likewise.
   * @param {import('../types/protocol.js').BeamsRequest} wanted
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
   * @param {(wasm: TextExports) => number} make returns 0 where there is no memory
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
        return this.json(() => this.text((wasm) => wasm.engine_text(this.engine)));
      },
      close,
    };
  }

  /**
   * @param {number} writing
   * @param {string | readonly import('../types/generate.js').Message[]} prompt that the text continues,
   *   or a conversation that it replies to
   * @param {import('../types/protocol.js').WantedText['options']} options
   */
  #addText(writing, prompt, options) {
    const text = this.text((wasm) => wasm.text_new(writing)) >>> 0;
    if (!text) throw outOfMemory('the module cannot grow');
    this.#setOptions(text, options);
    if (typeof prompt === 'string') {
      this.#withBytes(encode(prompt), (bytes, length) =>
        this.checkText((wasm) => wasm.text_prompt(text, bytes, length)),
      );
    } else {
      for (const message of prompt) this.#addMessage(text, message);
      this.withText(options.format, (format) =>
        this.checkText((wasm) => wasm.text_reply(text, format)),
      );
    }
  }

  /**
   * @param {number} text
   * @param {import('../types/protocol.js').WantedText['options']} options
   */
  #setOptions(text, options) {
    for (const [name, cName] of Object.entries(NUMBERS)) {
      const value = options[/** @type {'seed'} */ (name)];
      if (value === undefined) continue;
      this.withText(cName, (field) =>
        this.checkText((wasm) => wasm.text_set(text, field, Number(value))),
      );
    }
    const { stop, stopTokens, logitBias, grammar, jsonSchema } = options;
    this.#withBytes(encode(stop.map((each) => `${each}\0`).join('')), (bytes, length) =>
      this.checkText((wasm) => wasm.text_set_stops(text, bytes, length, stop.length)),
    );
    this.#withBytes(bytesOf(Int32Array.from(stopTokens)), (ids) =>
      this.checkText((wasm) => wasm.text_set_stop_ids(text, ids, stopTokens.length)),
    );
    const source = grammar ?? jsonSchema;
    if (source !== undefined) {
      const isSchema = grammar === undefined;
      this.#withBytes(encode(source), (bytes, length) =>
        this.checkText((wasm) => wasm.text_set_grammar(text, bytes, length, isSchema)),
      );
    }
    const pairs = new DataView(new ArrayBuffer(8 * logitBias.length));
    logitBias.forEach(([id, value], i) => {
      pairs.setInt32(8 * i, id, true);
      pairs.setFloat32(8 * i + 4, value, true);
    });
    this.#withBytes(bytesOf(pairs), (values) =>
      this.checkText((wasm) => wasm.text_set_bias(text, values, logitBias.length)),
    );
  }

  /**
   * @param {number} text
   * @param {import('../types/generate.js').Message} message
   */
  #addMessage(text, { role, content }) {
    this.withText(role, (name) =>
      this.#withBytes(encode(content), (bytes, length) =>
        this.checkText((wasm) => wasm.text_add_message(text, name, bytes, length)),
      ),
    );
  }

  /** @returns {import('../types/generate.js').TextEngineInfo} */
  info() {
    const name = this.text((wasm) => wasm.engine_chat_format(this.engine));
    return {
      ...super.info(),
      chatFormat: name ? this.string(name) : undefined,
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
    if (first >= ids.length) {
      const message = `first: ${first}, where there are ${ids.length} tokens, and the first has none before it`;
      throw new WispError('argument', message, { field: 'first' });
    }
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
      // A text has hardly more tokens than bytes; where it has, the count says how many.
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
   * @returns {string}
   */
  detokenize(ids) {
    return this.#withBytes(bytesOf(ids), (block) =>
      this.json(() => this.text((wasm) => wasm.engine_detokenize(this.engine, block, ids.length))),
    );
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
      if (!(error instanceof WispError)) throw error;
      const { code, message, cause } = error;
      const field = Object.entries(NAMES).find(([, cName]) => cName === error.field)?.[0];
      if (!field) throw error;
      throw new WispError(code, message.replace(error.field, field), { field, cause });
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
