// SPDX-License-Identifier: Apache-2.0
// An index of vectors: exact search, and the bytes of its file, which docs/formats.md describes. The
// C library has the same (src/index). Vectors are in the memory of a small WebAssembly module.
import { cosine } from '../base/cosine.js';
import { WispError, takeMemory } from '../base/errors.js';
import { checkOptions, checkString, shown, wrong } from '../base/options.js';
import { atOnce, inSlices } from '../platform/slices.js';
import { Best } from './best.js';
import { readIndex, writeIndex } from './index-file.js';
import { KINDS, MOST_DIMENSIONS, MOST_NAME, readHeader } from './index-header.js';
import { checkItems, embedderOf, idOf } from './index-items.js';
import {
  GROUP_BYTES,
  GROUP_ROWS,
  Kernels,
  finiteScore,
  quantiser,
  roundEven,
  roundUp,
} from './index-search.js';
import { STEP_ROWS } from './index-sections.js';

/** @typedef {import('../../types/vector-index.js').IndexItem} IndexItem */
/** @typedef {import('../../types/vector-index.js').IndexMatch} IndexMatch */
/** @typedef {import('../../types/vector-index.js').IndexEmbedder} IndexEmbedder */
/** @typedef {import('./index-sections.js').Entry} Entry */

/**
 * @template T
 * @typedef {import('../platform/slices.js').Steps<T>} Steps
 */

/** The sentence of src/index/model.c. */
const SENTENCE = 'The quick brown fox jumps over the lazy dog.';

/** The least cosine of its embeddings by one model. */
const SAME_MODEL = 0.9;

/** @typedef {{ signal?: AbortSignal | undefined }} SignalOption */

/** A query as the kernels read it. @typedef {{ bytes: Uint8Array, unit: number }} Query */

const encoder = new TextEncoder();

/** An index without files, which the entries for Node and browsers add. */
export class BaseIndex {
  /** @type {'int8' | 'f32'} */
  #kind;
  #dimensions;
  #rowBytes;
  #model = '';
  /** @type {Float32Array | undefined} */
  #fingerprint;
  /** @type {IndexEmbedder | undefined} */
  #embedder;
  /** @type {Kernels} */
  #kernels;
  /** @type {Entry[]} */
  #entries = [];
  /** @type {number[]} */
  #scales = [];
  /** @type {Map<string, number>} the last row of each id */
  #rows = new Map();
  /** Rows that can be found. Those behind them are being added, and become visible all at once. */
  #visible = 0;
  /** @type {Map<string, number>} the visible rows of ids that are being added again */
  #replaced = new Map();
  /** Visible rows that have not been removed. */
  #size = 0;
  /** Works in slices that read rows, which keep their places meanwhile. */
  #readers = 0;
  /** Ends when the items before have been put into the index. @type {Promise<void> | undefined} */
  #putting;

  /** By this index-node.cjs recognises an index without loading this module. */
  get [Symbol.for('wisp-engine')]() {
    return 'Index';
  }

  /**
   * @param {'int8' | 'f32'} kind
   * @param {number} dimensions
   */
  constructor(kind, dimensions) {
    this.#kind = kind;
    this.#dimensions = dimensions;
    this.#rowBytes = roundUp(dimensions * (kind === 'f32' ? 4 : 1), 16);
    this.#kernels = new Kernels(roundUp(4 * dimensions, 16));
  }

  /** Vectors in the index. */
  get size() {
    return this.#size;
  }

  /** Values of a vector. */
  get dimensions() {
    return this.#dimensions;
  }

  /** int8: a byte for each value. f32: four. */
  get kind() {
    return this.#kind;
  }

  /** The name of the model, or ''. */
  get model() {
    return this.#model;
  }

  /**
   * Makes an empty index for the embeddings of an embedder, or for vectors of so many dimensions.
   * @param {IndexEmbedder | { dimensions: number, kind?: 'int8' | 'f32' }} from
   * @param {{ kind?: 'int8' | 'f32', dimensions?: number }} [options]
   * @returns {Promise<any>}
   */
  static async create(from, options = {}) {
    const embedder = embedderOf(from);
    if (!embedder) {
      checkOptions(from, ['kind', 'dimensions']);
      options = /** @type {typeof options} */ (from);
    } else {
      checkOptions(options, ['kind', 'dimensions']);
    }
    const { kind = 'int8', dimensions = embedder?.dimensions } = options;
    if (!KINDS.includes(kind)) throw wrong('kind', `${shown(kind)} is neither 'int8' nor 'f32'`);
    const most = embedder?.dimensions ?? MOST_DIMENSIONS;
    if (!Number.isInteger(dimensions) || Number(dimensions) < 1 || Number(dimensions) > most) {
      throw wrong('dimensions', `${shown(dimensions)} is not a whole number from 1 to ${most}`);
    }
    const index = new this(kind, Number(dimensions));
    if (embedder) await index.#keepModel(embedder);
    return index;
  }

  /**
   * Reads the bytes of an index. With an embedder, texts can be added and searched; it must be of the
   * same model.
   * @param {ArrayBuffer | ArrayBufferView} bytes
   * @param {IndexEmbedder} [embedder]
   * @param {SignalOption} [options]
   * @returns {Promise<any>}
   */
  static async open(bytes, embedder, options = {}) {
    checkOptions(options, ['signal']);
    const own = /** @type {any} */ (bytes);
    const isBuffer = Object.prototype.toString.call(bytes) === '[object ArrayBuffer]';
    if (!isBuffer && !ArrayBuffer.isView(bytes)) {
      throw wrong('bytes', 'neither an ArrayBuffer nor a view of one');
    }
    let data;
    try {
      data = isBuffer
        ? new Uint8Array(own)
        : new Uint8Array(own.buffer, own.byteOffset, own.byteLength);
    } catch {
      throw wrong('bytes', 'their buffer is detached');
    }
    const header = readHeader(data);
    const index = new this(header.kind, header.dimensions);
    await index.#read(data, header, options.signal);
    if (embedder !== undefined) {
      if (!embedderOf(embedder)) throw wrong('embedder', 'not an Embedder');
      await index.#checkModel(embedder);
    }
    return index;
  }

  // ---- the model ----

  /** @param {IndexEmbedder} embedder */
  async #embedSentence(embedder) {
    const rows = await embedder.embed(SENTENCE, { prompt: '', dimensions: this.#dimensions });
    return this.#checkVector(rows.row(0), 'embedder');
  }

  /** @param {IndexEmbedder} embedder */
  async #keepModel(embedder) {
    const { name } = embedder.info();
    this.#model = encoder.encode(name).length <= MOST_NAME ? name : '';
    this.#fingerprint = Float32Array.from(await this.#embedSentence(embedder));
    this.#embedder = embedder;
  }

  /** @param {IndexEmbedder} embedder */
  async #checkModel(embedder) {
    const { name } = embedder.info();
    const n = this.#dimensions;
    if (n > embedder.dimensions) {
      const dimensions = embedder.dimensions;
      throw wrong('model', `the index has ${n} dimensions, and ${name} makes ${dimensions}`);
    }
    if (this.#fingerprint) {
      const row = await this.#embedSentence(embedder);
      const similarity = cosine(this.#fingerprint, row);
      if (!(similarity >= SAME_MODEL)) {
        const what = `the index has vectors of the model ${this.#model}, and those of ${name} do not fit them`;
        throw wrong('model', `${what} (cosine ${similarity.toFixed(2)})`);
      }
    }
    this.#embedder = embedder;
  }

  /** @param {readonly string[]} texts @param {{ prompt?: string, signal?: AbortSignal }} options */
  async #embed(texts, { prompt, signal }) {
    if (!this.#embedder) throw wrong('embedder', 'the index has none, so it takes vectors only');
    const dimensions = this.#dimensions;
    return this.#embedder.embed(texts, { prompt, dimensions, ...(signal && { signal }) });
  }

  /** @param {unknown} vector @param {string} field @returns {ArrayLike<number>} */
  #checkVector(vector, field) {
    const values = /** @type {ArrayLike<number>} */ (vector);
    if (typeof vector !== 'object' || values?.length !== this.#dimensions) {
      throw wrong(field, `not ${this.#dimensions} numbers`);
    }
    for (let i = 0; i < values.length; i++) {
      if (typeof values[i] !== 'number') throw wrong(field, `value ${i} is not a number`);
      if (!Number.isFinite(Math.fround(values[i]))) throw wrong(field, `value ${i} is not finite`);
    }
    return values;
  }

  // ---- changes ----

  /**
   * Adds items: texts, which the embedder embeds, or vectors. An item whose id the index has replaces
   * the old one. If it rejects, nothing has changed. Many items are added in slices, between which other tasks run:
   * they find none of the items before they find all.
   * @param {IndexItem | readonly IndexItem[]} items
   * @param {{ prompt?: string } & SignalOption} [options]
   */
  async add(items, options = {}) {
    checkOptions(options, ['prompt', 'signal']);
    const { signal } = options;
    const list = /** @type {IndexItem[]} */ (Array.isArray(items) ? [...items] : [items]);
    const { entries, texts } = await inSlices(checkItems(list), signal);
    const rows = texts.length > 0 ? await this.#embed(texts, options) : undefined;
    const what = `${list.length} rows of an index`;
    const bytes = takeMemory(what, () => new Uint8Array(list.length * this.#rowBytes));
    const scales = await inSlices(this.#packAll(list, rows, bytes), signal);
    // Two calls take turns. Nothing fails from here on.
    while (this.#putting) await this.#putting;
    this.#kernels.reserve((this.#visible + entries.length) * this.#rowBytes);
    this.#putting = this.#reading(this.#put(entries, bytes, scales));
    await this.#putting.finally(() => (this.#putting = undefined));
  }

  /**
   * Writes the vectors of items as rows, and returns the scales of int8.
   * @param {readonly IndexItem[]} list
   * @param {{ row(i: number): Float32Array } | undefined} rows of those that are texts
   * @param {Uint8Array} bytes
   * @returns {Steps<number[]>}
   */
  *#packAll(list, rows, bytes) {
    const scales = [];
    let embedded = 0;
    for (const [i, { vector, text }] of list.entries()) {
      yield;
      const given = text === undefined ? vector : rows?.row(embedded++);
      const values = this.#checkVector(given, `items[${i}].vector`);
      scales.push(this.#pack(values, bytes, i * this.#rowBytes));
    }
    return scales;
  }

  /**
   * Writes a vector as its row, and returns the scale of int8.
   * @param {ArrayLike<number>} values
   * @param {Uint8Array} bytes
   * @param {number} at
   */
  #pack(values, bytes, at) {
    if (this.#kind === 'f32') {
      new Float32Array(bytes.buffer, at, this.#dimensions).set(values);
      return 0;
    }
    const { factor, scale } = quantiser(values, 127, 2 ** -120);
    for (let i = 0; i < values.length; i++) {
      bytes[at + i] = roundEven(Math.fround(values[i]) * factor);
    }
    return scale;
  }

  /**
   * Adds rows, for which there is room.
   * @param {NonNullable<Entry>[]} entries
   * @param {Uint8Array} bytes their vectors
   * @param {number[]} scales
   * @returns {Steps<void>}
   */
  *#put(entries, bytes, scales) {
    const { vectors } = this.#kernels;
    for (const [i, entry] of entries.entries()) {
      const row = this.#entries.length;
      if (i % STEP_ROWS === 0) {
        yield;
        const some = bytes.subarray(i * this.#rowBytes, (i + STEP_ROWS) * this.#rowBytes);
        this.#kernels.bytes(vectors + row * this.#rowBytes, some.length).set(some);
      }
      const before = this.#rows.get(entry.id);
      if (before !== undefined && before < this.#visible) this.#replaced.set(entry.id, before);
      else if (before !== undefined) this.#entries[before] = null;
      this.#rows.set(entry.id, row);
      this.#entries.push(entry);
      if (this.#kind === 'int8') this.#scales.push(scales[i]);
    }
    for (const row of this.#replaced.values()) this.#entries[row] = null;
    this.#replaced.clear();
    this.#visible = this.#entries.length;
    this.#size = this.#rows.size;
  }

  /**
   * Removes the vectors of ids, and returns how many there were.
   * @param {string | readonly (string | number)[]} ids
   */
  remove(ids) {
    let removed = 0;
    if (typeof (/** @type {any} */ (ids)?.[Symbol.iterator]) !== 'function')
      throw wrong('ids', 'neither a text nor an array of texts');
    const list = (typeof ids === 'string' ? [ids] : [...ids]).map(idOf);
    for (const id of list) checkString(id, 'ids');
    for (const id of list) {
      const row = this.#rowOf(id);
      if (row === undefined) continue;
      if (!this.#replaced.delete(id)) this.#rows.delete(id);
      this.#entries[row] = null;
      this.#size--;
      removed++;
    }
    this.#compact();
    return removed;
  }

  /**
   * Runs work that reads rows between tasks.
   * @template T
   * @param {Steps<T>} steps
   * @param {AbortSignal} [signal]
   */
  async #reading(steps, signal) {
    this.#readers++;
    try {
      return await inSlices(steps, signal);
    } finally {
      this.#readers--;
      this.#compact();
    }
  }

  /** Makes the room of removed rows free for others if it is much, unless somebody reads rows. */
  #compact() {
    if (this.#readers > 0 || this.#visible - this.#size <= this.#visible / 4) return;
    const { vectors } = this.#kernels;
    const all = new Uint8Array(this.#kernels.module.memory.buffer);
    let to = 0;
    this.#entries.forEach((entry, row) => {
      if (!entry) return;
      const from = vectors + row * this.#rowBytes;
      all.copyWithin(vectors + to * this.#rowBytes, from, from + this.#rowBytes);
      if (this.#kind === 'int8') this.#scales[to] = this.#scales[row];
      this.#rows.set(entry.id, to++);
    });
    this.#entries = this.#entries.filter((entry) => entry);
    this.#visible = to;
    if (this.#kind === 'int8') this.#scales.length = to;
  }

  /** @param {string} id @returns {number | undefined} the visible row of an id */
  #rowOf(id) {
    const row = this.#rows.get(id);
    return row !== undefined && row >= this.#visible ? this.#replaced.get(id) : row;
  }

  /** @param {string | number} id @returns {boolean} */
  has(id) {
    return this.#rowOf(idOf(id)) !== undefined;
  }

  /** @param {string | number} id @returns {any} the metadata of an id; undefined if there is none */
  get(id) {
    const row = this.#rowOf(idOf(id));
    return row === undefined ? undefined : metadataOf(this.#entries[row], row);
  }

  /** Gives the ids, in the order of their rows. */
  *ids() {
    for (let row = 0; row < this.#visible; row++) {
      const entry = this.#entries[row];
      if (entry) yield entry.id;
    }
  }

  // ---- search ----

  /**
   * Finds what is nearest to a text or a vector, best first: the largest dot products, which are
   * cosines if vectors are normalised. Of equal scores the row that was added first is first. A large index is searched
   * in slices, between which other tasks run; what is found is what the index held when the search began.
   * @param {string | ArrayLike<number>} query
   * @param {{ k?: number, prompt?: string } & SignalOption} [options]
   * @returns {Promise<IndexMatch[]>}
   */
  async search(query, options = {}) {
    return (await this.searchMany([query], options))[0];
  }

  /**
   * Searches for several texts or vectors.
   * @param {readonly (string | ArrayLike<number>)[]} queries
   * @param {{ k?: number, prompt?: string } & SignalOption} [options]
   * @returns {Promise<IndexMatch[][]>}
   */
  async searchMany(queries, options = {}) {
    checkOptions(options, ['k', 'prompt', 'signal']);
    const { k = 10, signal } = options;
    if (!Number.isInteger(k) || k < 1) throw wrong('k', `${shown(k)} is not a whole number from 1`);
    const list = [...queries];
    const texts = /** @type {string[]} */ (list.filter((query) => typeof query === 'string'));
    const rows = texts.length > 0 ? await this.#embed(texts, options) : undefined;
    const prepared = await inSlices(this.#prepareAll(list, rows), signal);
    return this.#reading(this.#find(prepared, Math.min(k, this.#size)), signal);
  }

  /**
   * @param {readonly (string | ArrayLike<number>)[]} queries
   * @param {{ row(i: number): Float32Array } | undefined} rows of those that are texts
   * @returns {Steps<Query[]>}
   */
  *#prepareAll(queries, rows) {
    const prepared = [];
    let embedded = 0;
    for (const [i, query] of queries.entries()) {
      yield;
      const given = typeof query === 'string' ? rows?.row(embedded++) : query;
      prepared.push(this.#prepare(this.#checkVector(given, `queries[${i}]`)));
    }
    return prepared;
  }

  /**
   * @param {readonly Query[]} queries
   * @param {number} k
   * @returns {Steps<IndexMatch[][]>}
   */
  *#find(queries, k) {
    const entries = this.#entries.slice(0, this.#visible);
    const most = Math.max(1, Math.min(GROUP_ROWS, Math.floor(GROUP_BYTES / this.#rowBytes)));
    const found = [];
    for (const query of queries) {
      const best = new Best(k);
      for (let first = 0; first < entries.length && k > 0; first += most) {
        yield;
        this.#offerGroup(query, first, entries.slice(first, first + most), best);
      }
      const matches = [];
      for (const { index, score } of best.sorted()) {
        if (matches.length % STEP_ROWS === 0) yield;
        const entry = /** @type {NonNullable<Entry>} */ (entries[index]);
        matches.push({ id: entry.id, score, ...metadataOrError(entry, index) });
      }
      found.push(matches);
    }
    return found;
  }

  /**
   * @param {ArrayLike<number>} vector
   * @returns {Query}
   */
  #prepare(vector) {
    const n = this.#dimensions;
    const bytes = new ArrayBuffer(roundUp(4 * n, 16));
    if (this.#kind === 'f32') {
      new Float32Array(bytes).set(vector);
      return { bytes: new Uint8Array(bytes), unit: 0 };
    }
    // No sum of products reaches 2^31.
    const steps = Math.min(Math.floor((2 ** 31 - 1) / (128 * n)), 32767);
    const { factor, scale } = quantiser(vector, steps, 2 ** -110);
    const quantised = new Int16Array(bytes);
    for (let i = 0; i < n; i++) quantised[i] = roundEven(Math.fround(vector[i]) * factor);
    return { bytes: new Uint8Array(bytes), unit: scale };
  }

  /**
   * Offers the scores of a group of rows.
   * @param {Query} query
   * @param {number} first
   * @param {readonly Entry[]} entries
   * @param {Best} best
   */
  #offerGroup({ bytes, unit }, first, entries, best) {
    const count = entries.length;
    const { module, query, sums, vectors } = this.#kernels;
    const isInt8 = this.#kind === 'int8';
    // Another search may have put its query there since the last group, and the memory may have grown.
    this.#kernels.bytes(query, bytes.length).set(bytes);
    const { buffer } = module.memory;
    const products = isInt8
      ? new Int32Array(buffer, sums, GROUP_ROWS)
      : new Float32Array(buffer, sums, GROUP_ROWS);
    const dots = isInt8 ? module.dots_int8 : module.dots_f32;
    const width = isInt8 ? this.#rowBytes : this.#rowBytes / 4;
    dots(query, vectors + first * this.#rowBytes, width, count, this.#dimensions, sums);
    for (let i = 0; i < count; i++) {
      const row = first + i;
      // In doubles all factors but the last are exact, so that C gives these bits, too.
      const score = finiteScore(isInt8 ? products[i] * (unit * this.#scales[row]) : products[i]);
      if (best.wants(score) && entries[i]) best.offer(row, score);
    }
  }

  // ---- bytes ----

  /**
   * Returns the bytes of the index, which `wisp search` and wisp_index_open read, too. It takes one task, which for a
   * large index is long.
   * @returns {ArrayBuffer}
   */
  toBytes() {
    return atOnce(this.#write());
  }

  /**
   * Resolves to these bytes, which it makes in slices, between which other tasks run. They are those of the index when it
   * was called.
   * @param {SignalOption} [options]
   * @returns {Promise<ArrayBuffer>}
   */
  async arrayBuffer(options = {}) {
    checkOptions(options, ['signal']);
    return this.#reading(this.#write(), options.signal);
  }

  #write() {
    const contents = {
      kind: this.#kind,
      dimensions: this.#dimensions,
      rowBytes: this.#rowBytes,
      size: this.#size,
      model: this.#model,
      fingerprint: this.#fingerprint,
      entries: this.#entries.slice(0, this.#visible),
      scales: this.#scales.slice(0, this.#visible),
    };
    return writeIndex(contents, this.#kernels);
  }

  /**
   * @param {Uint8Array} data
   * @param {import('./index-header.js').Header} header
   * @param {AbortSignal} [signal]
   */
  async #read(data, header, signal) {
    const steps = readIndex(data, header, this.#rowBytes, this.#kernels);
    const { model, fingerprint, entries, scales, rows } = await inSlices(steps, signal);
    this.#model = model;
    this.#fingerprint = fingerprint;
    this.#entries = entries;
    this.#scales = scales;
    this.#rows = rows;
    this.#visible = entries.length;
    this.#size = rows.size;
  }
}

/** @param {Entry} entry @param {number} row */
function metadataOf(entry, row) {
  if (!entry?.metadata) return undefined;
  try {
    return JSON.parse(entry.metadata);
  } catch (cause) {
    const what = `index: metadata: that of row ${row} is not JSON`;
    throw new WispError('format', what, { field: 'metadata', cause });
  }
}

/** Malformed metadata of one row cost no other match. @param {Entry} entry @param {number} row */
function metadataOrError(entry, row) {
  try {
    return { metadata: metadataOf(entry, row) };
  } catch (error) {
    return { metadata: undefined, error: /** @type {WispError} */ (error) };
  }
}
