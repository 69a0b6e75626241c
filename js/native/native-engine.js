// SPDX-License-Identifier: Apache-2.0
// The addon for Node as an engine, for a pool whose members are native threads.
import { STATUS_CODES, WispError } from '../base/errors.js';
import { LOAD_OPTIONS, checkOption, wantedPredictor, wrong } from '../base/options.js';
import { prepare } from '../engine/engine.js';
import { serveBy } from '../engine/worker.js';
import { nextTask } from '../platform/link-local.js';

/** @typedef {import('../../types/addon.js').Addon} Addon */
/** @typedef {import('../../types/addon.js').Handle} Handle */
/** @typedef {import('../../types/addon.js').ModelFile} ModelFile */
/** @typedef {import('../engine/engine.js').EngineOptions} EngineOptions */

/**
 * Engines of one model with equal options share its weights.
 * @typedef {object} Shared
 * @property {Promise<void>} opened
 * @property {Set<WeakRef<NativeEngine>>} engines that have the model; the first opens it
 */

/** @type {WeakMap<object, Map<string, Shared>>} models by their buffers or files, and options */
const models = new WeakMap();

/**
 * One session of a model, with a native thread that computes. It has one request at a time. Members that
 * Engine does not have are for engines that extend this one.
 */
export class NativeEngine {
  #addon;
  #handle;
  /** @type {Promise<void> | undefined} */
  #closing;
  #me = new WeakRef(this);
  /** Lets other engines know that this one has the model no more. */
  #leave = () => {};
  /** @type {Shared | undefined} */
  #shared;
  #residentBytes = 0;
  dimensions = 0;
  /** @type {import('../engine/engine.js').EngineStats | undefined} of now */
  #stats;

  /**
   * @param {Addon} addon
   * @param {boolean} threaded else the calling thread computes
   */
  constructor(addon, threaded) {
    this.#addon = addon;
    this.#handle = addon.create(threaded);
  }

  /**
   * Opens the model. If it fails, the engine is closed.
   * @param {Uint8Array | ModelFile} model whose bytes must not change
   * @param {EngineOptions} options
   */
  async open(model, options) {
    checkOption(options.sparsity, 'sparsity', LOAD_OPTIONS.sparsity);
    for (const cache of /** @type {const} */ (['promptCache', 'vectorCache'])) {
      const size = /** @type {const} */ (`${cache}Size`);
      if (options[size] !== undefined && options[cache] === undefined) {
        throw wrong(size, `requires the option ${cache}`);
      }
    }
    try {
      const all = { ...options, predictor: wantedPredictor(options) };
      for (const [name, value] of Object.entries(all)) this.#set(name, value);
      await this.#openModel(model, weightsKey(all));
      this.call((addon, handle) => addon.openSession(handle));
      const { dimensions, residentBytes } = this.info();
      this.dimensions = dimensions;
      this.#residentBytes = residentBytes;
      if (options.vectorCache !== undefined) await this.embed([]); // opens it
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /**
   * Opens the model, or shares it with an engine that has.
   * @param {Uint8Array | ModelFile} model
   * @param {string} options
   */
  async #openModel(model, options) {
    const file = 'descriptor' in model ? model : undefined;
    const bytes = /** @type {Uint8Array} */ (model);
    const key = file ? options : `${bytes.byteOffset} ${bytes.length} ${options}`;
    const known = models.get(file ?? bytes.buffer) ?? new Map();
    models.set(file ?? bytes.buffer, known);
    for (;;) {
      let shared = /** @type {Shared | undefined} */ (known.get(key));
      const first = !shared;
      if (!shared) {
        const opened = this.ask((addon, handle) => addon.openModel(handle, model)).then(() =>
          file?.check(),
        );
        shared = { opened, engines: new Set() };
        known.set(key, shared);
      }
      const { opened, engines } = (this.#shared = shared);
      const forget = () => void (known.get(key) === shared && known.delete(key));
      this.#leave = () => {
        engines.delete(this.#me);
        if (engines.size === 0) forget();
      };
      if (first) {
        engines.add(this.#me);
        return await opened.catch((error) => {
          forget();
          throw error;
        });
      }
      try {
        await opened;
        if (this.#closing) throw closed();
        const owner = [...engines].map((each) => each.deref()).find((each) => each);
        if (owner) {
          this.call((addon, handle) => addon.shareModel(handle, owner.#handle));
          engines.add(this.#me);
          return;
        }
        forget(); // nobody has it any more
      } catch (error) {
        // The engine that opened it may have been closed meanwhile.
        if (!(error instanceof WispError) || error.code !== 'cancelled') throw error;
      }
    }
  }

  /**
   * @param {string} name of an option
   * @param {any} value undefined for the default
   */
  #set(name, value) {
    const text = value === undefined ? undefined : String(value);
    this.call((addon, handle) => addon.set(handle, name, text, +value));
  }

  /** Bytes of its session, and its part of the model that it shares. */
  get memoryBytes() {
    const users = this.#shared?.engines.size || 1;
    return this.stats().workspaceBytes + Math.round(this.#residentBytes / users);
  }

  /** @returns {import('../engine/engine.js').EngineInfo} */
  info() {
    return { ...this.json((addon, handle) => addon.info(handle)), prompt: this.prompt() };
  }

  /** @returns {import('../engine/engine.js').EngineStats} */
  stats() {
    return (this.#stats ??= this.json((addon, handle) => addon.stats(handle)));
  }

  /** @param {number} [sparsity] default: the model's */
  setSparsity(sparsity) {
    checkOption(sparsity, 'sparsity', LOAD_OPTIONS.sparsity);
    this.#set('sparsity', sparsity);
  }

  /** @param {string} [name] */
  prompt(name) {
    return this.call((addon, handle) => addon.prompt(handle, name));
  }

  /** @param {string} text */
  tokenize(text) {
    return this.ask((addon, handle) => addon.tokenize(handle, [text]));
  }

  /**
   * @param {readonly string[]} texts
   * @param {import('../engine/engine.js').EmbedOptions} [options]
   * @returns {Promise<Float32Array>}
   */
  async embed(texts, options) {
    const { rows, prompt, dimensions } = prepare(this, texts, options);
    await this.ask((addon, handle) => addon.embed(handle, texts, prompt, dimensions, rows));
    return rows;
  }

  /** @param {readonly string[]} texts */
  async countTokens(texts) {
    const counts = new Float32Array(texts.length);
    await this.ask((addon, handle) => addon.count(handle, texts, undefined, 1, counts));
    return counts;
  }

  get isClosed() {
    return this.#closing !== undefined;
  }

  /** Makes the request that is being computed, if there is one, fail soon as cancelled. */
  cancel() {
    if (!this.#closing) this.#addon.cancel(this.#handle);
  }

  /** Frees the engine, and the model with the last one that shares it. May be called more than once. */
  close() {
    this.#leave();
    this.#closing ??= this.#addon.close(this.#handle);
    return this.#closing;
  }

  /**
   * @template T
   * @param {(addon: Addon, handle: Handle) => T} body
   * @returns {T}
   */
  call(body) {
    if (this.#closing) throw closed();
    try {
      return body(this.#addon, this.#handle);
    } catch (error) {
      throw toWispError(error);
    }
  }

  /**
   * @template T
   * @param {(addon: Addon, handle: Handle) => Promise<T>} body
   * @returns {Promise<T>}
   */
  async ask(body) {
    this.#stats = undefined;
    try {
      return await this.call(body);
    } catch (error) {
      throw toWispError(error);
    }
  }

  /** @param {(addon: Addon, handle: Handle) => string | undefined} body */
  json(body) {
    const text = this.call(body);
    if (text === undefined) throw new WispError('memory', 'out of memory');
    return JSON.parse(text);
  }
}

/**
 * Returns what the options say of the weights: engines with equal keys share those of a model. An option that the table does
 * not know may change them.
 * @param {Record<string, unknown>} options
 */
const weightsKey = (options) =>
  JSON.stringify(
    Object.entries(options)
      .filter(([name, value]) => value !== undefined && LOAD_OPTIONS[name]?.of !== 'session')
      .sort(),
  );

const closed = () => new WispError('closed', 'the engine is closed');

/** @param {any} error of the addon */
function toWispError(error) {
  const code = STATUS_CODES[error?.status];
  if (error instanceof WispError || !code || code === 'ok') return error;
  return new WispError(code, error.message, { field: error.field });
}

/** @typedef {import('../../types/protocol.js').SharedBytes} SharedBytes */

/** In place of a model. */
const NO_BYTES = { buffer: new ArrayBuffer(0), at: 0, size: 0 };

/**
 * Starts members of a pool that compute with the addon. They get the messages that workers get, on the
 * calling thread, and only computing is elsewhere.
 * @param {{ new (addon: Addon, threaded: boolean): NativeEngine }} Kind of engine
 * @param {(post: Parameters<import('../engine/worker.js').Serve>[0], kind: { open: Function }) => ReturnType<import('../engine/worker.js').Serve>} serve
 *   makes what answers the messages
 * @returns {import('./addon-node.js').StartNative}
 */
export const nativeStarter =
  (Kind, serve) =>
  (threaded) =>
  ({ reply }) => {
    /** @type {Set<NativeEngine>} one, or two while another predictor is taken */
    const engines = new Set();
    let stopped = false;
    /** @param {[Addon, SharedBytes | ModelFile]} from @param {Uint8Array} _ @param {EngineOptions} options */
    const open = async ([addon, model], _, options) => {
      const engine = new Kind(addon, threaded);
      engines.forEach((each) => each.isClosed && engines.delete(each));
      engines.add(engine);
      const isFile = 'descriptor' in model;
      await engine.open(
        isFile ? model : new Uint8Array(model.buffer, model.at, model.size),
        options,
      );
      return engine;
    };
    const receive = serve(
      (message) => {
        if (!stopped) reply(message);
      },
      { open },
    );
    return {
      post(message) {
        let request = /** @type {any} */ (message);
        // Others make an array of the model, which a file is not.
        if (request.type === 'open')
          request = { ...request, module: [request.module, request.model], model: NO_BYTES };
        // If the calling thread computes, it does other work between requests.
        if (threaded) void receive(request);
        else nextTask(() => void (stopped || receive(request)));
      },
      hold() {}, // a request keeps the process running
      cancel: () => engines.forEach((engine) => engine.cancel()),
      async stop() {
        stopped = true;
        await Promise.all([...engines].map((engine) => engine.close()));
      },
    };
  };

export const startNative = nativeStarter(NativeEngine, (post, kind) =>
  serveBy(post, kind, (/** @type {NativeEngine} */ engine, { type, texts, options }) =>
    type === 'embed' ? engine.embed(texts, options) : engine.countTokens(texts),
  ),
);
