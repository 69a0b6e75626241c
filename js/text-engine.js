// SPDX-License-Identifier: Apache-2.0
import { Engine, encode } from './engine.js';
import { WispError, outOfMemory, takeMemory } from './errors.js';
import { openTeam } from './threads.js';

/** @typedef {import('../types/generate.js').TextOptions} TextOptions */
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
};

/** The module's names of the options that its errors may name. */
const NAMES = { ...NUMBERS, logitBias: 'bias', stopTokens: 'stop_id' };

/** An engine whose model continues texts, in a module wisp-generate-*.wasm. */
export class TextEngine extends Engine {
  #threads = 1;
  #stopTeam = () => {};

  /**
   * @param {WebAssembly.Module} module
   * @param {import('../types/engine.js').ModelBytes} model
   * @param {import('../types/engine.js').EngineOptions & { threads?: number }} [options]
   * @param {import('./threads.js').StartHelper} [startHelper]
   * @returns {Promise<TextEngine>}
   */
  static async open(module, model, { threads = 1, ...options } = {}, startHelper) {
    const team = await openTeam(module, threads, startHelper);
    if (!team) return /** @type {TextEngine} */ (await super.open(module, model, options));
    try {
      const all = { ...options, threads: team.threads };
      const engine = /** @type {TextEngine} */ (await super.open(module, model, all, team.imports));
      engine.#threads = engine.text((wasm) => wasm.thread_count?.() ?? 1);
      engine.#stopTeam = team.stop;
      return engine;
    } catch (error) {
      team.stop();
      throw error;
    }
  }

  close() {
    this.#stopTeam();
    super.close();
  }

  /**
   * Begins a text. While it is being written the engine can do nothing else.
   * @param {string | readonly import('../types/generate.js').Message[]} prompt that the text continues,
   *   or a conversation that it replies to
   * @param {import('../types/generate.js').ChatTextOptions} options that have been checked
   */
  write(prompt, options) {
    const text = this.text((wasm) => wasm.text_new(this.engine) >>> 0);
    if (!text) throw outOfMemory('the module cannot grow');
    const close = () => this.text((wasm) => wasm.text_free(text));
    try {
      this.#setOptions(text, options);
      if (typeof prompt === 'string') {
        this.#withBytes(encode(prompt), (bytes, length) =>
          this.checkText((wasm) => wasm.text_open(text, bytes, length)),
        );
      } else {
        for (const message of prompt) this.#addMessage(text, message);
        this.withText(options.format, (format) =>
          this.checkText((wasm) => wasm.text_open(text, format, 0)),
        );
      }
    } catch (error) {
      close();
      throw error;
    }
    return {
      /**
       * Goes on for about so many seconds.
       * @param {number} seconds
       * @returns {import('../types/protocol.js').Written & { ended: boolean }}
       */
      run: (seconds) => {
        this.checkText((wasm) => wasm.text_run(text, seconds));
        return this.json(() => this.text((wasm) => wasm.text_json(text)));
      },
      close,
    };
  }

  /**
   * @param {number} text
   * @param {TextOptions} options
   */
  #setOptions(text, options) {
    for (const [name, cName] of Object.entries(NUMBERS)) {
      const value = options[/** @type {'seed'} */ (name)];
      if (value === undefined) continue;
      this.withText(cName, (field) =>
        this.checkText((wasm) => wasm.text_set(text, field, Number(value))),
      );
    }
    const { stop = [], stopTokens = [], logitBias = {} } = options;
    const stops = [stop].flat();
    this.#withBytes(encode(stops.map((each) => `${each}\0`).join('')), (bytes, length) =>
      this.checkText((wasm) => wasm.text_set_stops(text, bytes, length, stops.length)),
    );
    this.#withBytes(bytesOf(Int32Array.from(stopTokens)), (ids) =>
      this.checkText((wasm) => wasm.text_set_stop_ids(text, ids, stopTokens.length)),
    );
    const biases = Object.entries(logitBias);
    const pairs = new DataView(new ArrayBuffer(8 * biases.length));
    biases.forEach(([id, value], i) => {
      pairs.setInt32(8 * i, Number(id), true);
      pairs.setFloat32(8 * i + 4, value, true);
    });
    this.#withBytes(bytesOf(pairs), (values) =>
      this.checkText((wasm) => wasm.text_set_bias(text, values, biases.length)),
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
      threads: this.#threads,
      chatFormat: name ? this.string(name) : undefined,
    };
  }

  /**
   * Returns the log-probabilities of the ids from `first` on, each given all before it.
   * @param {Int32Array} ids
   * @param {number} first
   * @returns {Float32Array}
   */
  score(ids, first) {
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
   * @param {Int32Array} ids
   * @returns {Float32Array}
   */
  logits(ids) {
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
      if (!(error instanceof WispError) || error.code !== 'argument') throw error;
      const { message, cause } = error;
      const field =
        Object.entries(NAMES).find(([, cName]) => cName === error.field)?.[0] ?? error.field;
      throw new WispError('argument', message.replace(error.field, field), { field, cause });
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
