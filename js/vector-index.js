// SPDX-License-Identifier: Apache-2.0
// An index of vectors: exact search, and the bytes of its file, which docs/formats.md describes. The
// C library has the same (src/index). Vectors lie in the memory of a small WebAssembly module.
import { Best } from './best.js';
import { WispError, takeMemory } from './errors.js';
import {
  HEADER_BYTES,
  KINDS,
  MAGIC,
  MOST_DIMENSIONS,
  MOST_NAME,
  VERSION,
  malformed,
  readHeader,
} from './index-header.js';
import { GROUP_ROWS, Kernels, finiteScore, quantiser, roundEven, roundUp } from './index-search.js';
import {
  decode,
  entrySections,
  floatBytes,
  floatsOf,
  readEntries,
  readSections,
} from './index-sections.js';
import { nextTask } from './link-local.js';
import { checkOptions, checkString, shown, wrong } from './options.js';

/** @typedef {import('../types/vector-index.js').IndexItem} IndexItem */
/** @typedef {import('../types/vector-index.js').IndexMatch} IndexMatch */
/** @typedef {import('../types/vector-index.js').IndexEmbedder} IndexEmbedder */
/** @typedef {import('./index-sections.js').Entry} Entry */

/** The sentence of src/index/model.c. */
const SENTENCE = 'The quick brown fox jumps over the lazy dog.';

/** The least cosine of its embeddings by one model. */
const SAME_MODEL = 0.9;

/** Bytes of vectors that are searched in one task, so that a page stays responsive: some milliseconds. */
const SLICE = 1 << 24;

/**
 * A query as the kernels read it.
 * @typedef {{ bytes: Uint8Array, unit: number }} Query
 */

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
  /** @type {Map<string, number>} */
  #rows = new Map();
  /** Grows whenever rows change. */
  #changes = 0;

  /** By this index.cjs recognises an index without loading this module. */
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
    return this.#rows.size;
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
   * @returns {Promise<any>}
   */
  static async open(bytes, embedder) {
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
    index.#read(data, header);
    if (embedder !== undefined) {
      if (!embedderOf(embedder)) throw wrong('embedder', 'no Embedder');
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
      let [ab, aa, bb] = [0, 0, 0];
      this.#fingerprint.forEach((a, i) => {
        ab += a * row[i];
        aa += a * a;
        bb += row[i] * row[i];
      });
      const cosine = ab / Math.sqrt(aa) / Math.sqrt(bb);
      if (!(cosine >= SAME_MODEL)) {
        const what = `the index has vectors of the model ${this.#model}, and those of ${name} do not fit them`;
        throw wrong('model', `${what} (cosine ${cosine.toFixed(2)})`);
      }
    }
    this.#embedder = embedder;
  }

  /** @param {readonly string[]} texts @param {string | undefined} prompt */
  async #embed(texts, prompt) {
    if (!this.#embedder) throw wrong('embedder', 'the index has none, so it takes vectors only');
    const rows = await this.#embedder.embed(texts, { prompt, dimensions: this.#dimensions });
    return texts.map((_, i) => rows.row(i));
  }

  /** @param {unknown} vector @param {string} field @returns {ArrayLike<number>} */
  #checkVector(vector, field) {
    const values = /** @type {ArrayLike<number>} */ (vector);
    if (typeof vector !== 'object' || values?.length !== this.#dimensions) {
      throw wrong(field, `not ${this.#dimensions} numbers`);
    }
    for (let i = 0; i < values.length; i++) {
      if (typeof values[i] !== 'number') throw wrong(field, `value ${i} is no number`);
      if (!Number.isFinite(Math.fround(values[i]))) throw wrong(field, `value ${i} is not finite`);
    }
    return values;
  }

  // ---- changes ----

  /**
   * Adds items: texts, which the embedder embeds, or vectors. An item whose id the index has replaces
   * the old one. Where it rejects, nothing has changed.
   * @param {IndexItem | readonly IndexItem[]} items
   * @param {{ prompt?: string }} [options]
   */
  async add(items, options = {}) {
    checkOptions(options, ['prompt']);
    const list = /** @type {readonly IndexItem[]} */ (Array.isArray(items) ? items : [items]);
    const metadata = list.map((item, i) => checkItem(item, `items[${i}]`));
    const texts = list.flatMap(({ text }) => (text === undefined ? [] : [text]));
    const rows = texts.length > 0 ? await this.#embed(texts, options.prompt) : [];
    let embedded = 0;
    const vectors = list.map(({ vector, text }, i) =>
      this.#checkVector(text === undefined ? vector : rows[embedded++], `items[${i}].vector`),
    );
    this.#kernels.reserve((this.#entries.length + list.length) * this.#rowBytes);
    list.forEach(({ id }, i) => this.#put(id, metadata[i], vectors[i]));
  }

  /** @param {string} id @param {string} metadata @param {ArrayLike<number>} values */
  #put(id, metadata, values) {
    this.#changes++;
    const row = this.#entries.length;
    const before = this.#rows.get(id);
    if (before !== undefined) this.#entries[before] = null;
    this.#rows.set(id, row);
    this.#entries.push({ id, metadata });
    const at = this.#kernels.vectors + row * this.#rowBytes;
    const bytes = this.#kernels.bytes(at, this.#rowBytes).fill(0);
    if (this.#kind === 'f32') {
      new Float32Array(bytes.buffer, at, this.#dimensions).set(values);
      return;
    }
    const { factor, scale } = quantiser(values, 127, 2 ** -120);
    for (let i = 0; i < values.length; i++) bytes[i] = roundEven(Math.fround(values[i]) * factor);
    this.#scales.push(scale);
  }

  /**
   * Removes the vectors of ids, and returns how many there were.
   * @param {string | readonly string[]} ids
   */
  remove(ids) {
    let removed = 0;
    if (typeof (/** @type {any} */ (ids)?.[Symbol.iterator]) !== 'function')
      throw wrong('ids', 'no text and no array of texts');
    const list = typeof ids === 'string' ? [ids] : [...ids];
    for (const id of list) checkString(id, 'ids');
    this.#changes++;
    for (const id of list) {
      const row = this.#rows.get(id);
      if (row === undefined) continue;
      this.#rows.delete(id);
      this.#entries[row] = null;
      removed++;
    }
    if (this.#entries.length - this.#rows.size > this.#entries.length / 4) this.#compact();
    return removed;
  }

  /** Makes the room of removed rows free for others. */
  #compact() {
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
    if (this.#kind === 'int8') this.#scales.length = to;
  }

  /** @param {string} id @returns {boolean} */
  has(id) {
    return this.#rows.has(id);
  }

  /** @param {string} id @returns {any} the metadata of an id; undefined where there is none */
  get(id) {
    const row = this.#rows.get(id);
    return row === undefined ? undefined : this.#metadata(/** @type {number} */ (row));
  }

  /** Gives the ids, in the order of their rows. */
  *ids() {
    for (const entry of this.#entries) if (entry) yield entry.id;
  }

  /** @param {number} row */
  #metadata(row) {
    const text = this.#entries[row]?.metadata;
    if (!text) return undefined;
    try {
      return JSON.parse(text);
    } catch (cause) {
      const what = `index: metadata: that of row ${row} is no JSON`;
      throw new WispError('format', what, { field: 'metadata', cause });
    }
  }

  // ---- search ----

  /**
   * Finds what is nearest to a text or a vector, best first: the largest dot products, which are
   * cosines where vectors are normalised. Of equal scores the row that was added first is first. A large index is searched
   * in slices, between which other tasks run; what is found is what the index held at one moment of them.
   * @param {string | ArrayLike<number>} query
   * @param {{ k?: number, prompt?: string }} [options]
   * @returns {Promise<IndexMatch[]>}
   */
  async search(query, options = {}) {
    return (await this.searchMany([query], options))[0];
  }

  /**
   * Searches for several texts or vectors.
   * @param {readonly (string | ArrayLike<number>)[]} queries
   * @param {{ k?: number, prompt?: string }} [options]
   * @returns {Promise<IndexMatch[][]>}
   */
  async searchMany(queries, options = {}) {
    checkOptions(options, ['k', 'prompt']);
    const { k = 10, prompt } = options;
    if (!Number.isInteger(k) || k < 1) throw wrong('k', `${shown(k)} is not a whole number from 1`);
    const texts = /** @type {string[]} */ (queries.filter((query) => typeof query === 'string'));
    const rows = texts.length > 0 ? await this.#embed(texts, prompt) : [];
    let embedded = 0;
    const vectors = queries.map((query, i) =>
      this.#checkVector(typeof query === 'string' ? rows[embedded++] : query, `queries[${i}]`),
    );
    const prepared = vectors.map((vector) => this.#prepare(vector));
    const most = () => Math.min(k, this.#rows.size);
    // Where the index changes while it is searched, the second search runs without a pause.
    return (
      (await this.#searchAll(prepared, most(), SLICE)) ??
      /** @type {IndexMatch[][]} */ (await this.#searchAll(prepared, most(), Infinity))
    );
  }

  /**
   * Searches for all queries, and lets other tasks run after each so many bytes of vectors. Resolves to undefined where
   * one of them has changed the index: rows may have moved.
   * @param {readonly Query[]} queries
   * @param {number} k
   * @param {number} slice
   * @returns {Promise<IndexMatch[][] | undefined>}
   */
  async #searchAll(queries, k, slice) {
    const changes = this.#changes;
    const found = [];
    let done = 0;
    for (const query of queries) {
      const best = new Best(k);
      for (let first = 0; first < this.#entries.length && k > 0; first += GROUP_ROWS) {
        if (done >= slice) {
          done = 0;
          await new Promise((resolve) => nextTask(() => resolve(undefined)));
          if (this.#changes !== changes) return undefined;
        }
        const count = Math.min(GROUP_ROWS, this.#entries.length - first);
        this.#offerGroup(query, first, count, best);
        done += count * this.#rowBytes;
      }
      found.push(
        best.sorted().map(({ index, score }) => ({
          id: /** @type {NonNullable<Entry>} */ (this.#entries[index]).id,
          score,
          metadata: this.#metadata(index),
        })),
      );
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
   * @param {number} count
   * @param {Best} best
   */
  #offerGroup({ bytes, unit }, first, count, best) {
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
      if (best.wants(score) && this.#entries[row]) best.offer(row, score);
    }
  }

  // ---- bytes ----

  /**
   * Returns the bytes of the index, which `wisp search` and wisp_index_open read, too.
   * @returns {ArrayBuffer}
   */
  toBytes() {
    const n = this.#entries.length;
    const used = n * this.#rowBytes;
    const { deleted, lengths, texts } = entrySections(this.#entries);
    const name = encoder.encode(this.#model);
    const sections = [
      name,
      floatBytes(this.#fingerprint ?? []),
      floatBytes(this.#scales),
      deleted,
      lengths,
      texts,
    ];
    const places = [HEADER_BYTES];
    for (const { length } of sections) places.push(roundUp(places[places.length - 1], 64) + length);
    const start = roundUp(places[places.length - 1], 64);
    const size = start + used;
    const bytes = takeMemory('the bytes of an index', () => new Uint8Array(size));
    const view = new DataView(bytes.buffer);
    bytes.set(MAGIC);
    view.setUint32(8, VERSION, true);
    view.setUint32(12, KINDS.indexOf(this.#kind), true);
    view.setBigUint64(16, BigInt(size), true);
    view.setUint32(24, this.#dimensions, true);
    view.setUint32(28, this.#rowBytes, true);
    view.setBigUint64(32, BigInt(n), true);
    view.setBigUint64(40, BigInt(n - this.#rows.size), true);
    view.setBigUint64(48, BigInt(texts.length), true);
    view.setUint32(56, name.length, true);
    view.setUint32(60, this.#fingerprint ? 1 : 0, true);
    sections.forEach((section, s) => {
      bytes.set(section, roundUp(places[s], 64));
      view.setBigUint64(64 + 8 * s, this.#kernels.checksum(section, used), true);
    });
    bytes.set(this.#kernels.bytes(this.#kernels.vectors, used), start);
    view.setBigUint64(112, this.#kernels.checksumAt(this.#kernels.vectors, used), true);
    view.setBigUint64(120, this.#kernels.checksum(bytes.subarray(0, 120), used), true);
    return bytes.buffer;
  }

  /** @param {Uint8Array} data @param {import('./index-header.js').Header} header */
  #read(data, header) {
    const { rows: n, kind } = header;
    const kernels = this.#kernels;
    const used = n * this.#rowBytes;
    if (kernels.checksum(data.subarray(0, 120), 0) !== header.checksum) {
      throw malformed('header', 'the checksum is wrong: the bytes are damaged');
    }
    const sections = readSections(data, header, (section) => kernels.checksum(section, 0));
    const [name, fingerprint, scales, deleted, textLengths, texts] = sections;
    // The vectors are the last that were checked, and lie where they belong.
    this.#model = decode(name, 'name');
    if (this.#model.includes('\0')) throw malformed('name', 'has a zero');
    if (header.hasModel) this.#fingerprint = Float32Array.from(floatsOf(fingerprint));
    if (this.#fingerprint?.some((value) => !Number.isFinite(value))) {
      throw malformed('fingerprint', 'a value is not finite');
    }
    this.#scales = [...floatsOf(scales)];
    this.#scales.forEach((scale, row) => {
      if (!Number.isFinite(scale) || scale < 0) {
        throw malformed('scales', `that of row ${row} is negative or not finite`);
      }
    });
    this.#checkPadding(n);
    this.#entries = readEntries(n, deleted, textLengths, texts);
    this.#entries.forEach((entry, row) => {
      if (!entry) return;
      if (this.#rows.has(entry.id)) throw malformed('ids', `that of row ${row} comes twice`);
      this.#rows.set(entry.id, row);
    });
    if (n - this.#rows.size !== header.deleted) {
      throw malformed('deleted', `${n - this.#rows.size} rows are marked, not ${header.deleted}`);
    }
    kernels.reserve(used);
    if (kind === 'f32') this.#checkFloats(n);
  }

  /** Rows end with zeros. @param {number} n */
  #checkPadding(n) {
    const bytes = this.#kernels.bytes(this.#kernels.vectors, n * this.#rowBytes);
    const values = this.#dimensions * (this.#kind === 'f32' ? 4 : 1);
    for (let row = 0; row < n; row++) {
      for (let i = values; i < this.#rowBytes; i++) {
        if (bytes[row * this.#rowBytes + i] !== 0) {
          throw malformed('vectors', `row ${row} does not end with zeros`);
        }
      }
    }
  }

  /** @param {number} n */
  #checkFloats(n) {
    const { module, vectors } = this.#kernels;
    const values = new Float32Array(module.memory.buffer, vectors, (n * this.#rowBytes) / 4);
    const at = values.findIndex((value) => !Number.isFinite(value));
    if (at >= 0) {
      throw malformed(
        'vectors',
        `that of row ${Math.floor((4 * at) / this.#rowBytes)} is not finite`,
      );
    }
  }
}

/** Returns what embeds, or undefined. @param {any} value @returns {IndexEmbedder | undefined} */
function embedderOf(value) {
  return typeof value?.embed === 'function' && typeof value?.info === 'function'
    ? value
    : undefined;
}

/**
 * Checks an item, and returns its metadata as JSON. A text is kept in it.
 * @param {IndexItem} item
 * @param {string} field
 */
function checkItem(item, field) {
  if (typeof item !== 'object' || item === null) throw wrong(field, 'no object');
  const { id, text, vector, metadata } = item;
  if (typeof id !== 'string' || id === '') throw wrong(`${field}.id`, 'no string with a character');
  // UTF-8 has no half of a pair, and two such ids would become one.
  if (/\p{Surrogate}/u.test(id)) throw wrong(`${field}.id`, 'has half of a surrogate pair');
  if ((text === undefined) === (vector === undefined)) {
    throw wrong(field, 'needs either a text or a vector');
  }
  if (text !== undefined) checkString(text, `${field}.text`);
  const isObject = typeof metadata === 'object' && metadata !== null && !Array.isArray(metadata);
  if (text !== undefined && metadata !== undefined && !isObject) {
    throw wrong(`${field}.metadata`, 'no object, which that of a text has to be');
  }
  const kept = text === undefined ? metadata : { text, .../** @type {object} */ (metadata) };
  try {
    return kept === undefined ? '' : (JSON.stringify(kept) ?? '');
  } catch (cause) {
    const name = `${field}.metadata`;
    throw new WispError('argument', `${name}: cannot become JSON`, { field: name, cause });
  }
}
