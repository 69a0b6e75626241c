// SPDX-License-Identifier: Apache-2.0
import { outOfMemory } from '../base/errors.js';
import { prepare, takeGroup } from '../engine/engine.js';
import { TeamEngine } from '../engine/team-engine.js';

/** The number of WISP_NEED_RANGES. */
const NEED_RANGES = 8;

/** The numbers of wisp_cold_stats, in their order. */
const STATS =
  'neurons hotNeurons hotBytes coldBytes warmBytes mostWarmBytes budget hits misses evictions reads readBytes warmNeurons prefetched prefetchedUsed prefetchedWasted tokens least'.split(
    ' ',
  );

/** @typedef {import('../../types/protocol.js').ColdStats} ColdStats */

/** An engine that may be opened without the cold neurons of its model, and waits for those that texts need. */
export class ColdEngine extends TeamEngine {
  /** @type {import('../../types/protocol.js').ColdOptions | undefined} */
  cold;
  #skipped = 0;
  /** The counts of the engines that it is instead of. @type {Partial<ColdStats>} */
  #earlier = {};

  /**
   * @param {WebAssembly.Module} module
   * @param {Uint8Array} bytes the model, or its beginning
   * @param {import('../engine/engine.js').EngineOptions & { threads?: number, cold?: import('../../types/protocol.js').ColdOptions }} [options]
   * @param {import('../engine/threads.js').StartHelper} [startHelper]
   * @returns {Promise<ColdEngine>}
   */
  static async open(module, bytes, { cold, ...options } = {}, startHelper) {
    const { buffer, byteOffset, length } = bytes;
    const source = {
      buffer,
      byteOffset,
      length,
      size: cold?.size ?? bytes.length,
      lasting: typeof SharedArrayBuffer === 'function' && bytes.buffer instanceof SharedArrayBuffer,
      read: (/** @type {number} */ offset, /** @type {Uint8Array} */ into) =>
        into.set(bytes.subarray(offset, offset + into.length)),
    };
    const { memory } = cold ?? {};
    const all = cold && {
      available: bytes.length,
      skip_absent: cold.skip,
      ...(memory && { memory }),
    };
    const engine = /** @type {ColdEngine} */ (
      await super.open(module, source, { ...options, ...all }, startHelper)
    );
    engine.cold = cold;
    if (cold?.tokens) engine.check((wasm) => wasm.engine_trace_tokens(engine.engine, cold.tokens));
    return engine;
  }

  /**
   * Does what embed does, and waits for absent neurons.
   * @param {readonly string[]} texts
   * @param {import('../engine/engine.js').EmbedOptions} options
   * @param {(ranges: [number, number][]) => Promise<import('../../types/protocol.js').Piece[]>} fetch brings the
   *   bytes of ranges [start, end) of the file
   */
  async embedCold(texts, options, fetch) {
    const { rows, prompt, dimensions, size } = prepare(this, texts, options);
    const skipped = new Float64Array(texts.length);
    for (let first = 0; first < texts.length;) {
      const group = takeGroup(texts, first);
      const n = group.length;
      const found = await this.#embedGroup(group, prompt, dimensions, size, fetch);
      rows.set(found.rows, first * size);
      skipped.set(found.skipped, first);
      first += n;
    }
    this.#skipped += skipped.reduce((sum, each) => sum + each, 0);
    return { rows, skipped };
  }

  /**
   * The module uses the texts and the room for rows until the call ends, also while it waits.
   * @param {Uint8Array[]} group
   * @param {string | undefined} prompt
   * @param {number} dimensions
   * @param {number} size of a row
   * @param {Parameters<ColdEngine['embedCold']>[2]} fetch
   */
  async #embedGroup(group, prompt, dimensions, size, fetch) {
    const n = group.length;
    /** @type {number[]} */
    const blocks = [];
    const take = (/** @type {number} */ bytes) => {
      const block = this.call((wasm) => wasm.allocate(bytes) >>> 0);
      if (!block) throw outOfMemory(`the module cannot grow for ${bytes} bytes`);
      blocks.push(block);
      return block;
    };
    try {
      const length = group.reduce((sum, bytes) => sum + bytes.length, 8 * n);
      const input = take(length);
      const output = take(4 * size * n);
      const counts = take(8 * n);
      let named = 0;
      if (prompt !== undefined) {
        this.withText(prompt, (text, bytes) => {
          named = take(bytes + 1);
          this.bytes(named, bytes + 1).set(this.bytes(text, bytes + 1));
        });
      }
      this.writeTexts(input, length, group);
      let waits = this.#waits((wasm) =>
        wasm.engine_begin(this.engine, input, n, named, dimensions, output, counts),
      );
      while (waits) {
        for (const { offset, bytes } of await fetch(this.#needs())) this.provide(offset, bytes);
        waits = this.#waits((wasm) => wasm.engine_continue(this.engine));
      }
      const { buffer } = this.alive().memory;
      return {
        rows: new Float32Array(buffer, output, size * n).slice(),
        skipped: Float64Array.from(new BigUint64Array(buffer, counts, n), Number),
      };
    } finally {
      // After a trap this throws the error of the trap again.
      this.call((wasm) => {
        wasm.engine_give_up(this.engine);
        blocks.forEach((block) => wasm.release(block));
      });
    }
  }

  /** @param {(wasm: import('../engine/engine.js').Exports) => number} body returns whether it waits for neurons */
  #waits(body) {
    let waits = false;
    this.check((wasm) => {
      const status = body(wasm);
      waits = status === NEED_RANGES;
      return waits ? 0 : status;
    });
    return waits;
  }

  /** @returns {[number, number][]} */
  #needs() {
    const { gap = 0 } = this.cold ?? {};
    return this.#ranges((wasm, found) => wasm.engine_needs(this.engine, gap, found, found + 4));
  }

  /**
   * Returns ranges of the file with the token embeddings that texts need and that are absent, some of them twice. May be
   * called while embedCold waits.
   * @param {readonly string[]} texts
   * @param {string} [prompt]
   */
  textNeeds(texts, prompt) {
    const before = (prompt && this.prompt(prompt)) ?? prompt ?? this.prompt();
    /** @type {Map<number, number>} ends of ranges by their starts: texts share chunks */
    const all = new Map();
    for (const text of texts) {
      const ranges = this.withText(`${before}${text}`, (input, length) =>
        this.#ranges((wasm, found) =>
          wasm.engine_text_needs(this.engine, input, length, 0, found, found + 4),
        ),
      );
      for (const [start, end] of ranges) all.set(start, Math.max(end, all.get(start) ?? 0));
    }
    return [...all];
  }

  /**
   * @param {(wasm: import('../engine/engine.js').Exports, found: number) => number} body writes the address of ranges, and
   *   how many there are
   * @returns {[number, number][]}
   */
  #ranges(body) {
    return this.withBlock(8, (found) => {
      this.check((wasm) => body(wasm, found));
      const { buffer } = this.alive().memory;
      const [at, count] = new Uint32Array(buffer, found, 2);
      const numbers = Array.from(new BigUint64Array(buffer, at, 2 * count), Number);
      return Array.from({ length: count }, (_, i) => {
        const [start, length] = numbers.slice(2 * i, 2 * i + 2);
        return [start, start + length];
      });
    });
  }

  /**
   * Makes the neurons present whose rows are within these bytes of the file.
   * @param {number} offset
   * @param {Uint8Array} bytes
   */
  provide(offset, bytes) {
    this.withBlock(bytes.length, (block) => {
      this.bytes(block, bytes.length).set(bytes);
      this.check((wasm) => wasm.engine_provide(this.engine, offset, block, bytes.length));
    });
  }

  /**
   * Goes on with the counts of an engine that it is instead of.
   * @param {ColdEngine} engine
   */
  countOn(engine) {
    if (engine.cold) this.#earlier = engine.coldStats();
  }

  /** @returns {ColdStats} */
  coldStats() {
    return this.withBlock(8 * STATS.length, (block) => {
      this.call((wasm) => wasm.engine_cold_stats(this.engine, block));
      const numbers = new BigUint64Array(this.alive().memory.buffer, block, STATS.length);
      const all = Object.fromEntries(STATS.map((name, i) => [name, Number(numbers[i])]));
      const { neurons, hotNeurons, tokens, hits, misses, evictions, reads, readBytes } = all;
      const { prefetched, prefetchedUsed, prefetchedWasted } = all;
      const { hotBytes, warmBytes, coldBytes, least } = all;
      const memory = { least, hot: hotBytes, warm: warmBytes, cold: coldBytes };
      // Those that came and were evicted are counted, too: no more than have room are here.
      const room = coldBytes > 0 ? (warmBytes / coldBytes) * (neurons - hotNeurons) : 0;
      const present = all.warmNeurons;
      const warmNeurons = evictions > 0 ? Math.min(present, Math.round(room)) : present;
      const came = { reads, readBytes, prefetched, prefetchedUsed, prefetchedWasted };
      const counts = { hits, misses, evictions, skipped: this.#skipped, ...came };
      for (const name of /** @type {(keyof typeof counts)[]} */ (Object.keys(counts)))
        counts[name] += this.#earlier[name] ?? 0;
      return { neurons, hotNeurons, warmNeurons, tokens, memory, ...counts };
    });
  }

  /** @param {number} layer @param {number} token @param {number} block that gets the mask, if there is one */
  #writeToken(layer, token, block) {
    return this.call((wasm) => wasm.engine_token_neurons(this.engine, layer, token, block)) !== 0;
  }

  /** @returns {import('../../types/protocol.js').LayerNeurons[]} */
  neurons() {
    const { layers, intermediateSize } = this.info();
    const words = Math.ceil(intermediateSize / 64);
    return this.withBlock(8 * (4 + 2 * words), (block) =>
      Array.from({ length: layers }, (_, layer) => {
        this.call((wasm) => wasm.engine_neurons(this.engine, layer, block, words));
        const { buffer } = this.alive().memory;
        const numbers = Array.from(new BigUint64Array(buffer, block, 4), Number);
        const [neurons, hot, coldOffset, rowBytes] = numbers;
        const masks = new Uint8Array(buffer, block + 32, 16 * words);
        const [present, needed] = [masks.slice(0, 8 * words), masks.slice(8 * words)];
        const tokens = [];
        for (; this.#writeToken(layer, tokens.length, block);)
          tokens.push(this.bytes(block, 8 * words).slice());
        return { neurons, hot, coldOffset, rowBytes, present, needed, tokens };
      }),
    );
  }
}
