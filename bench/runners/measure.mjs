// SPDX-License-Identifier: Apache-2.0
// Times a peer in JavaScript, in Node and in a page.

/**
 * An engine that is measured. `choices` lists settings, mostly batch sizes, from which the bench
 * takes the fastest for some texts; `embed` returns one normalised row for each text, in order.
 * @typedef {Record<string, number>} Settings
 * @typedef {{
 *   about: Record<string, unknown>,
 *   choices: (texts: string[]) => Settings[],
 *   embed: (texts: string[], settings: Settings) => Promise<Float32Array> | Float32Array,
 * }} Peer
 */

/** The bench repeats short calls for at least this many milliseconds. */
const ENOUGH_MS = 150;
/** A sample takes at least this long, because Firefox's clock steps by a millisecond. */
const SAMPLE_MS = 20;
const BATCH_SIZES = [1, 8, 32];
/** The bench compares batch sizes on about this many texts of all lengths. */
const SAMPLE_TEXTS = 64;
/** The bench begins no further comparison after this many milliseconds. */
const CHOOSING_MS = 2000;

/**
 * Returns the settings to choose from. No batch is larger than the workload.
 * @param {string[]} texts
 * @returns {Settings[]}
 */
export function batchChoices(texts) {
  return BATCH_SIZES.filter((size) => size === 1 || size <= texts.length).map((batch) => ({
    batch,
  }));
}

/**
 * Embeds batches of texts of similar lengths.
 * @param {string[]} texts
 * @param {number} size texts in a batch
 * @param {(texts: string[]) => Promise<Float32Array>} embedBatch
 */
export async function inBatches(texts, size, embedBatch) {
  const order = texts.map((_, i) => i).sort((a, b) => texts[a].length - texts[b].length);
  let rows = new Float32Array(0);
  for (let first = 0; first < order.length; first += size) {
    const batch = order.slice(first, first + size);
    const found = await embedBatch(batch.map((i) => texts[i]));
    const width = found.length / batch.length;
    if (first === 0) rows = new Float32Array(width * texts.length);
    batch.forEach((at, i) => rows.set(found.subarray(i * width, (i + 1) * width), at * width));
  }
  return rows;
}

/** @param {string[]} texts */
function sample(texts) {
  const step = Math.max(1, Math.floor(texts.length / SAMPLE_TEXTS));
  return [...texts].sort((a, b) => a.length - b.length).filter((_, i) => i % step === 0);
}

/**
 * Returns the settings with which a sample of the texts took the least time, with two tries each.
 * @param {Peer} peer
 * @param {string[]} texts
 */
async function bestChoice(peer, texts) {
  const choices = peer.choices(texts);
  if (choices.length < 2) return choices[0];
  const some = sample(texts);
  const best = choices.map(() => Infinity);
  const begin = performance.now();
  for (let round = 0; round < 2; round++) {
    for (const [i, settings] of choices.entries()) {
      const start = performance.now();
      if (start - begin > CHOOSING_MS) break;
      await peer.embed(some, settings);
      best[i] = Math.min(best[i], performance.now() - start);
    }
  }
  return choices[best.indexOf(Math.min(...best))];
}

/**
 * Returns the seconds of one call: the median of samples that fill ENOUGH_MS. A sample has as many
 * calls as it needs to take SAMPLE_MS.
 * @param {() => unknown} call
 */
async function timeCalls(call) {
  /** @type {number[]} */
  const seconds = [];
  const begin = performance.now();
  let calls = 1;
  do {
    const start = performance.now();
    for (let i = 0; i < calls; i++) await call();
    const ms = performance.now() - start;
    if (ms < SAMPLE_MS) calls *= 2;
    else seconds.push(ms / calls / 1000);
  } while (seconds.length === 0 || performance.now() - begin < ENOUGH_MS);
  seconds.sort((a, b) => a - b);
  return { seconds: seconds[seconds.length >> 1], calls };
}

/** Measures one peer with the workloads that the driver names. */
export class Bench {
  /** @type {Peer | undefined} */
  #peer;
  #open;
  #readTexts;
  /** @type {Map<string, { texts: string[], settings: Settings }>} */
  #workloads = new Map();

  /**
   * @param {() => Promise<Peer>} open
   * @param {(workload: string) => Promise<string>} readTexts one text a line
   */
  constructor(open, readTexts) {
    this.#open = open;
    this.#readTexts = readTexts;
  }

  async load() {
    const start = performance.now();
    this.#peer = await this.#open();
    await this.#peer.embed(['A first sentence.'], this.#peer.choices(['one'])[0]);
    return { seconds: (performance.now() - start) / 1000, about: this.#peer.about };
  }

  /** @param {string} workload */
  async warm(workload) {
    const texts = (await this.#readTexts(workload)).split('\n').slice(0, -1);
    const settings = await bestChoice(this.#opened(), texts);
    this.#workloads.set(workload, { texts, settings });
    const start = performance.now();
    await this.rows(workload);
    return { settings, seconds: (performance.now() - start) / 1000 };
  }

  /** @param {string} workload */
  async run(workload) {
    return timeCalls(() => this.rows(workload));
  }

  /** @param {string} workload */
  async rows(workload) {
    const { texts, settings } = this.#workloads.get(workload) ?? { texts: [], settings: {} };
    return this.#opened().embed(texts, settings);
  }

  #opened() {
    if (!this.#peer) throw new Error('load comes first');
    return this.#peer;
  }
}
