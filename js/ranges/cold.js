// SPDX-License-Identifier: Apache-2.0
// Embedder.load with the option cold: what Node and browsers share. A model opens from the beginning of its file,
// and its workers ask the pool for the neurons that texts need.
import { WispError, cancelled, onAbort, packError } from '../base/errors.js';
import { wrong } from '../base/options.js';
import { threadsLoader } from '../calls/threads-load.js';
import { releaseAll } from '../files/lent.js';
import { checkMagic, isOutage } from '../hub/hub.js';
import { Ahead } from './cold-ahead.js';
import { findHot } from './cold-header.js';
import { CHECK_MS } from './cold-http.js';
import { layersOf } from './cold-layers.js';
import { offerRows } from './cold-offers.js';
import { checkCold } from './cold-options.js';
import { Ranges, lengthOf } from './cold-ranges.js';
import { Rest } from './cold-rest.js';
import { Skipped } from './cold-skipped.js';
import { KeptChunks, findKept, forget } from './cold-store.js';
import { otherHeader, readTable, sha256 } from './cold-table.js';

/** @typedef {import('../../types/internal.js').Platform} Platform */
/** @typedef {import('../../types/internal.js').StartLink} StartLink */
/** @typedef {import('../../types/internal.js').RangeFile} RangeFile */
/** @typedef {import('../../types/protocol.js').ColdStats} ColdStats */
/** @typedef {import('./cold-ranges.js').Range} Range */
/** @typedef {import('./cold-options.js').How} How */

/** Numbers that workers count, whose sums stats() tells. */
const COUNTS = /** @type {const} */ ([
  ...['hits', 'misses', 'evictions', 'skipped', 'reads', 'readBytes'],
  ...['prefetched', 'prefetchedUsed', 'prefetchedWasted'],
]);
/** @returns {Record<typeof COUNTS[number], number>} */
const noCounts = () => /** @type {any} */ (Object.fromEntries(COUNTS.map((name) => [name, 0])));

/**
 * Makes the function that load calls for the option cold.
 * @param {object} parts
 * @param {(source: import('../files/source.js').ModelSource) => RangeFile} parts.openFile throws if the source is none
 *   of which ranges can be fetched
 * @param {() => Promise<import('./cold-store.js').Store>} parts.openStore
 * @param {(bytes: Uint8Array<ArrayBuffer>) => import('../../types/protocol.js').SharedModel} parts.hold keeps what the model
 *   opens from, for workers that start later
 * @param {Pick<import('../../types/internal.js').Own, 'worker' | 'local'>} parts.own
 * @param {string} parts.script the name of the worker's
 * @param {import('../../types/internal.js').Own['module']} parts.threadsModule for workers with threads
 * @param {(platform: Platform) => Platform} parts.watch starts or watches these
 * @returns {NonNullable<Platform['cold']>}
 */
export const coldLoader =
  ({ openFile, openStore, hold, own: coldOwn, script, threadsModule, watch }) =>
  async (platform, own, source, { memory, ...options }, wanted) => {
    const how = checkCold(wanted, memory);
    if (own.threads) throw wrong('cold', 'generators load the whole model');
    if (options.integrity?.model)
      throw wrong('integrity', 'model: the file is not read as a whole');
    if (options.backend === 'native') throw wrong('backend', 'the option cold is for WebAssembly');
    const cold = new ColdModel(how, openStore);
    const { worker, local } = coldOwn;
    const loading = threadsLoader({ module: threadsModule, worker }, script, watch)(
      {
        ...platform,
        compile: (...of) => cold.compiled(platform.compile(...of)),
        startWorker: (...of) => cold.link(platform.startWorker(...of)),
        async readModel(ownModel, given, reading) {
          if (options.wasm instanceof WebAssembly.Module) {
            void cold.compiled(Promise.resolve(options.wasm));
          }
          const bytes = await cold.open(openFile(given ?? ownModel()), reading);
          return { model: hold(bytes), release: () => cold.close() };
        },
      },
      {
        ...own,
        worker,
        local: cold.link(local),
        names: { ...own.names, worker: script },
        hooks: cold.hooks,
        native: () => ({ reason: 'the option cold is for WebAssembly' }),
      },
      source,
      options,
    );
    const loaded = await loading.catch((error) => cold.fail(error));
    cold.begin();
    const { about } = loaded;
    const reasons = { ...about.reasons, cold: cold.reason };
    return { ...loaded, about: { ...about, modelBytes: cold.size, reasons } };
  };

/** A model whose workers may lack cold neurons. */
class ColdModel {
  #how;
  #openStore;
  /** @type {Ranges | undefined} */
  #ranges;
  /** @type {RangeFile | undefined} */
  #file;
  /** @type {import('./cold-store.js').Store | undefined} */
  #store;
  /** The file as an earlier visit has kept it. @type {Awaited<ReturnType<typeof findKept>>} */
  #found;
  /** The header, to be kept when the model is open. @type {Uint8Array | undefined} */
  #header;
  /** The bytes that the model opens from, until they are kept. @type {Uint8Array<ArrayBuffer> | undefined} */
  #beginning;
  /** @type {Rest | undefined} */
  #rest;
  /** Ends the use of what is kept. @type {Promise<() => unknown> | undefined} */
  #held;
  /** Bytes of the file before the first cold neuron. */
  #hotBytes = 0;
  /** Its chunks that have digests. @type {import('./cold-table.js').ChunkTable | undefined} */
  #table;
  /** @type {Promise<WebAssembly.Module> | undefined} */
  #module;
  /** Links to the workers, whose engines count. @type {Set<{ cold?: ColdStats, offer(): void }>} */
  #links = new Set();
  #ended = noCounts();
  /** The neurons as a worker has last reported them. @type {import('../../types/protocol.js').LayerNeurons[]} */
  #layers = [];
  /** Tells the caller of load that something has changed, once the model is open. */
  #tell = () => {};
  #skipped = new Skipped();
  #ahead = new Ahead();
  reason = '';

  /** @param {How} how @param {() => Promise<import('./cold-store.js').Store>} openStore */
  constructor(how, openStore) {
    this.#how = how;
    this.#openStore = openStore;
  }

  /** Those of the pool. @returns {import('../../types/internal.js').PoolHooks[]} */
  get hooks() {
    const skipped = this.#how.mode === 'skip' ? [this.#skipped] : [];
    return [this.#ahead, ...skipped, { stats: () => ({ cold: this.stats() }) }];
  }

  get size() {
    return this.#file?.size ?? 0;
  }

  /** @param {Promise<WebAssembly.Module>} module */
  compiled(module) {
    module.catch(() => {}); // load reports it
    return (this.#module = module);
  }

  /**
   * Returns the part of a model's file that it opens from. If threads do not start, load asks for it once more, and
   * receives the bytes that have arrived.
   * @param {RangeFile} file
   * @param {import('../../types/internal.js').Reading} reading
   */
  async open(file, reading) {
    if (!this.#beginning) {
      this.#hotBytes = 0;
      this.#table = this.#header = this.#found = undefined;
      return this.#read(file, reading);
    }
    reading.progress(this.#hotBytes, this.#hotBytes);
    return this.#beginning;
  }

  /**
   * @param {RangeFile} file
   * @param {import('../../types/internal.js').Reading} reading
   */
  async #read(file, { signal, progress }) {
    this.#file = file;
    const ranges = (this.#ranges = new Ranges(file, this.#how.gap));
    /** @type {{ error: unknown } | undefined} by onProgress */
    let thrown;
    ranges.bytes.onWrite = () => {
      try {
        const total = this.#hotBytes || undefined;
        const loaded = file.received + (ranges.kept?.received ?? 0);
        progress(Math.min(loaded, total ?? Infinity), total);
      } catch (error) {
        thrown ??= { error };
      }
    };
    let end = (await this.#findKept(file, signal)) || this.#how.first;
    /** @type {Uint8Array<ArrayBuffer>} */
    let bytes;
    for (;;) {
      bytes = await this.#need(end, signal);
      if (thrown) throw thrown.error;
      end = Math.min(end, file.size);
      bytes = bytes.subarray(0, end);
      checkMagic(bytes, file.name);
      if (this.#hotBytes === 0) {
        this.#hotBytes = await findHot(await this.#moduleFor(signal), bytes, file);
        if (this.#hotBytes > 0) await this.#useHeader(bytes, signal);
      }
      if (this.#hotBytes > 0 && this.#hotBytes <= end) break;
      end = Math.min(this.#hotBytes || 2 * end, file.size);
    }
    if (file.isWhole) {
      this.reason = 'the server sends the whole file instead of a range';
      this.#hotBytes = file.size;
      bytes = ranges.bytes.read([0, file.size]);
    } else {
      this.reason =
        this.#hotBytes < file.size ? 'asked for' : 'the file has no cold neurons (wisp calibrate)';
      bytes = bytes.subarray(0, this.#hotBytes);
    }
    if (this.#how.sha256 && this.#hotBytes === file.size)
      await this.#table?.check(bytes, file.name);
    ranges.bytes.onWrite = () => {};
    ranges.bytes.forget(this.#hotBytes);
    if (this.#how.memory !== undefined && this.#hotBytes === file.size) {
      const message = `memory: nothing can be evicted, because the whole model is in memory: ${this.reason}`;
      throw new WispError('unsupported', message, { field: 'memory' });
    }
    this.#beginning = bytes;
    progress(this.#hotBytes, this.#hotBytes);
    return bytes;
  }

  /**
   * Returns the module. If it does not come, load says why, and ends this reading.
   * @param {AbortSignal} signal
   * @returns {Promise<WebAssembly.Module>}
   */
  async #moduleFor(signal) {
    try {
      return await /** @type {Promise<WebAssembly.Module>} */ (this.#module);
    } catch {
      if (signal.aborted) throw cancelled(signal);
      return new Promise((_, reject) => onAbort(signal, () => reject(cancelled(signal))));
    }
  }

  /**
   * Returns the beginning of the file. If the server is out of reach, and names no state of its files by which one
   * could be told from another, that is what an earlier visit has kept.
   * @param {number} end
   * @param {AbortSignal} signal
   */
  async #need(end, signal) {
    const ranges = /** @type {Ranges} */ (this.#ranges);
    const file = /** @type {RangeFile} */ (this.#file);
    const stop = new AbortController();
    const leave = onAbort(signal, () => stop.abort(signal.reason));
    const mayOpenKept = this.#found?.about.url === file.name && this.#hotBytes === 0;
    const { received } = file;
    const silent = () => file.received === received && stop.abort();
    const timer = mayOpenKept ? setTimeout(silent, CHECK_MS) : undefined;
    try {
      const [{ bytes }] = await ranges.need([[0, end]], stop.signal);
      return bytes;
    } catch (error) {
      if (signal.aborted || !this.#found || !mayOpenKept) throw error;
      if (!stop.signal.aborted && !isOutage(error)) throw error;
      const [{ bytes }] = await ranges.need([[0, this.#take(this.#found)]], signal);
      return bytes;
    } finally {
      clearTimeout(timer);
      leave();
    }
  }

  /**
   * Takes what an earlier visit has kept, if the file is still the same, or nobody can say whether it is. Returns how
   * many bytes are to be fetched first; 0: as many as else.
   * @param {RangeFile} file
   * @param {AbortSignal} signal
   */
  async #findKept(file, signal) {
    if (!this.#how.store || !file.isStill) return 0;
    const store = await this.#openStore();
    if (this.#how.memory !== undefined && store.kind === 'memory') return 0;
    this.#store = store;
    const { sha256: wanted, immutable } = this.#how;
    const found = await findKept(this.#store, file.name);
    if (!found || (wanted && found.about.header !== wanted)) return 0;
    this.#found = found;
    const { state, places, url } = found.about;
    if (wanted) return this.#take(found);
    if (url !== file.name) return places.start; // the header says whether it is the same
    if (immutable) return this.#take(found);
    if (state === null) return places.start; // the header says whether it is the same
    const isStill = await file.isStill(state, places.end, signal);
    if (isStill !== false) return this.#take(found);
    this.#found = undefined;
    return 0;
  }

  /**
   * Opens what an earlier visit has kept. Returns the bytes that the model opens from.
   * @param {NonNullable<Awaited<ReturnType<typeof findKept>>>} found
   */
  #take({ about, header, chunks }) {
    const { bytes } = Object.assign(/** @type {Ranges} */ (this.#ranges), { kept: chunks });
    const { state, places } = about;
    this.#table = readTable(header, places.cold, places.end);
    bytes.write(0, header);
    bytes.mark([0, header.length]);
    Object.assign(/** @type {RangeFile} */ (this.#file), { size: places.end, state: state ?? undefined }); // prettier-ignore
    this.#header = header;
    return (this.#hotBytes = places.cold);
  }

  /**
   * Compares the header of a file with the hash that it has to have, and looks for chunks that are kept.
   * @param {Uint8Array} bytes its beginning
   * @param {AbortSignal} signal
   */
  async #useHeader(bytes, signal) {
    const { size, name: url } = /** @type {RangeFile} */ (this.#file);
    const ranges = /** @type {Ranges} */ (this.#ranges);
    const table = (this.#table = readTable(bytes, this.#hotBytes, size));
    const { sha256: wanted } = this.#how;
    if (!table && wanted) throw otherHeader(url, wanted);
    if (!table || (!this.#store && !wanted)) return;
    const [{ bytes: header }] = await ranges.need([[0, table.start]], signal);
    const name = await sha256(header);
    if (wanted && name !== wanted) throw otherHeader(url, wanted, name);
    if (!this.#store) return;
    if (this.#found?.about.header !== name) this.#found = undefined;
    ranges.kept = await KeptChunks.open(this.#store, name, table);
    this.#header = header;
  }

  /** Stores what was fetched, and begins to fetch the rest, when the workers have opened the model. */
  begin() {
    const ranges = /** @type {Ranges} */ (this.#ranges);
    const file = /** @type {RangeFile} */ (this.#file);
    const { kept } = ranges;
    const header = this.#header;
    const beginning = /** @type {Uint8Array<ArrayBuffer>} */ (this.#beginning);
    this.#header = this.#beginning = undefined;
    /** @type {Promise<unknown>} */
    let keeping = Promise.resolve();
    if (kept && header) {
      this.#held = kept.hold();
      void kept.describe(file.name, file.state ?? null, this.#found ? undefined : header);
      ranges.keeps = true;
      if (kept.missing([header.length, beginning.length]).length > 0)
        keeping = kept.keep([0, beginning.length], beginning);
    }
    void keeping.finally(() => releaseAll([beginning.buffer]));
    const { complete, mode, memory } = this.#how;
    const isKept = kept && kept.kind !== 'memory' && !kept.full;
    if (memory !== undefined || (mode === 'skip' && isKept)) ranges.limit = this.#hotBytes;
    if (complete && file.isStill && this.#hotBytes < file.size) {
      this.#rest = new Rest(ranges, file.size, () => {
        for (const link of this.#links) link.offer();
      });
    }
    if (this.#how.onChange) this.#watch(ranges, this.#how.onChange);
  }

  /**
   * Lets the caller of load know of changes, of several at a time once.
   * @param {Ranges} ranges
   * @param {() => void} onChange
   */
  #watch(ranges, onChange) {
    let willTell = false;
    this.#tell = () => {
      if (willTell) return;
      willTell = true;
      // An error that it throws is uncaught, and none of a request or a call.
      queueMicrotask(() => {
        willTell = false;
        onChange();
      });
    };
    const plan = ranges.onChange;
    ranges.onChange = () => {
      plan();
      this.#tell();
    };
    ranges.bytes.onWrite = this.#tell;
  }

  /**
   * @param {unknown} error
   * @returns {never}
   */
  fail(error) {
    // Whatever is wrong with what was kept, the next visit does without it.
    const isWrong = error instanceof WispError && error.code === 'format';
    if (isWrong && this.#store && this.#found) void forget(this.#store, this.#found.about.url).catch(() => {}); // prettier-ignore
    throw error;
  }

  /**
   * Answers what workers ask for, and records their counters.
   * @param {StartLink} start
   * @returns {StartLink}
   */
  link(start) {
    return ({ reply, end }) => {
      const stop = new AbortController(); // of what is offered
      let isOpening = false;
      let mayOffer = false; // once for each model that the worker has opened
      /** @type {{ cold?: ColdStats, offer(): void }} */
      const counted = {
        offer: () => {
          if (!mayOffer || this.#how.mode !== 'skip') return;
          const all = /** @type {Range} */ ([this.#hotBytes, this.size]);
          if (!this.#ranges) return;
          if (this.#rest?.state !== 'done' && this.#ranges.absent(all).length !== 0) return;
          mayOffer = false;
          const parts = {
            first: this.#hotBytes,
            end: this.size,
            chunkBytes: this.#table?.bytes ?? 0,
          };
          const hand = (/** @type {import('../../types/protocol.js').OfferRequest} */ offer) =>
            new Promise((resolve) => {
              taken.push(resolve);
              link.post(/** @type {any} */ (offer));
            });
          // Neurons that the store has lost meanwhile, or nobody can bring, are left out as before.
          void offerRows(this.#ranges, parts, stop.signal, hand).catch(() => {});
        },
      };
      /** Called when the worker has taken an offer. @type {((value?: any) => void)[]} */
      const taken = [];
      let wait = new AbortController(); // of the request that is answered
      let { signal: early } = this.#ahead; // of the texts that the worker was last asked about
      /** @type {Range[]} */
      let provided = [];
      this.#links.add(counted);
      const leave = () => {
        wait.abort();
        stop.abort();
        if (!this.#links.delete(counted) || !counted.cold) return;
        for (const name of COUNTS) this.#ended[name] += counted.cold[name];
      };
      const link = start({
        reply: (message) => {
          const { type, ranges, cold, skipped, layers, value, error } = /** @type {any} */ (
            message
          );
          if (layers) {
            this.#layers = layers;
            this.#tell();
          }
          // Bytes that differ from their digests are asked for again by the next call.
          if (error?.code === 'format') this.#ranges?.bytes.unmark(provided);
          if (type === 'taken') return taken.shift()?.();
          if (type === 'needs') {
            provided = ranges;
            const asks = this.#asksAhead(ranges);
            void this.#answer(ranges, wait.signal, (answer) => link.post(answer));
            const parts = asks ? this.#ahead.next() : [];
            early = this.#ahead.signal;
            return parts.length > 0 ? link.post({ type: 'ahead', parts }) : undefined;
          }
          if (type === 'ahead') return void this.#fetchAhead(ranges, early);
          counted.cold = cold ?? counted.cold;
          if (skipped) this.#skipped.note(value, skipped);
          if (type === 'done' && isOpening) {
            isOpening = false;
            mayOffer = true;
            counted.offer();
          }
          reply(message);
        },
        end: (error) => {
          leave();
          end(error);
        },
      });
      return {
        ...link,
        post: (message) => {
          if (/^(open|sparse)$/.test(/** @type {any} */ (message).type)) {
            isOpening = true;
            mayOffer = false;
          }
          wait = new AbortController();
          link.post(this.#withOptions(/** @type {any} */ (message)));
        },
        cancel: () => wait.abort(),
        stop: () => {
          leave();
          return link.stop();
        },
      };
    };
  }

  /** @param {any} message */
  #withOptions(message) {
    const { size } = this;
    if (message.type !== 'open' || this.#hotBytes === size) return message;
    const { gap, mode, memory, onChange, tokens } = this.#how;
    const cold = { size, gap, skip: mode === 'skip', memory, watch: Boolean(onChange), tokens };
    return { ...message, options: { ...message.options, cold } };
  }

  /**
   * @param {Range[]} wanted
   * @param {AbortSignal} signal
   * @param {(answer: import('../../types/protocol.js').ProvideRequest) => void} post
   */
  async #answer(wanted, signal, post) {
    const ranges = /** @type {Ranges} */ (this.#ranges);
    ranges.use(wanted);
    try {
      post({ type: 'provide', pieces: await ranges.need(wanted, signal) });
    } catch (error) {
      post({ type: 'provide', pieces: [], error: packError(error) });
    }
  }

  /**
   * Whether other texts are to ask for what they need when a worker waits for ranges: it waits for the line, and what
   * comes early is kept.
   * @param {Range[]} wanted
   */
  #asksAhead(wanted) {
    const ranges = /** @type {Ranges} */ (this.#ranges);
    return ranges.limit === Infinity && wanted.some((range) => ranges.absent(range).length > 0);
  }

  /**
   * @param {Range[]} needed by texts that no worker has yet, and which ask again if these fail
   * @param {AbortSignal} signal of the calls with these texts, which may have ended since
   */
  #fetchAhead(needed, signal) {
    const ranges = /** @type {Ranges} */ (this.#ranges);
    // Rows alone would be thousands of requests.
    const gap = this.#table ? 0 : this.#how.gap;
    ranges.fetchAhead(needed, gap, signal).catch(() => {});
  }

  /** @returns {import('../../types/index.js').ColdTotals} */
  stats() {
    const { received = 0, requests = 0, size = 0 } = this.#file ?? {};
    const { kept } = this.#ranges ?? {};
    const absent = this.#ranges?.absent([0, size]) ?? [];
    const { restBytes = 0, restUsedBytes = 0 } = this.#ranges ?? {};
    const totals = { ...this.#ended };
    const neurons = { neurons: 0, hotNeurons: 0, warmNeurons: 0, warmTokens: 0 };
    const memory = { budget: this.#how.memory, least: 0, hot: 0, warm: 0, cold: 0 };
    for (const { cold } of this.#links) {
      if (!cold) continue;
      for (const name of COUNTS) totals[name] += cold[name];
      Object.assign(neurons, {
        neurons: cold.neurons,
        hotNeurons: cold.hotNeurons,
        warmNeurons: Math.max(neurons.warmNeurons, cold.warmNeurons),
        warmTokens: Math.max(neurons.warmTokens, cold.tokens),
      });
      Object.assign(memory, cold.memory, { warm: Math.max(memory.warm, cold.memory.warm) });
    }
    return {
      mode: this.#hotBytes < size ? this.#how.mode : 'all',
      fileBytes: size,
      hotBytes: this.#hotBytes,
      fetchedBytes: received,
      requests,
      presentBytes: size - lengthOf(absent),
      storedBytes: kept?.bytes ?? 0,
      storeReadBytes: kept?.received ?? 0,
      store: kept?.kind ?? 'none',
      storeError: kept?.full || undefined,
      rest: this.#rest?.state ?? 'off',
      restBytes,
      restUsedBytes,
      ...neurons,
      memory,
      ...totals,
      ...this.#drawn(),
    };
  }

  /** The state of each neuron, if the caller of load watches it. */
  #drawn() {
    const ranges = this.#ranges;
    if (!this.#how.onChange || !ranges) return undefined;
    const { coming } = ranges;
    const absent = (/** @type {Range} */ range) => ranges.absent(range);
    return {
      absent: absent([0, this.size]),
      coming,
      layers: layersOf(this.#layers, { absent, coming }, this.#how.mode === 'skip'),
    };
  }

  /** Ends all requests. Resolves when all received bytes are stored, and nothing writes to the store any more. */
  async close() {
    this.#rest?.stop();
    await this.#ranges?.close();
    await (
      await this.#held
    )?.();
  }
}
