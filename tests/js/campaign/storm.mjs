// SPDX-License-Identifier: Apache-2.0
// Workers that are killed at random moments while callers ask for rows, in Node and in pages.
import { WispError } from '../../../js/base/errors.js';
import { check, pause } from '../pool/checks.mjs';
import { shortTexts } from '../pool/texts.mjs';
import { sameBits } from './bits.mjs';
import { Random } from './random.mjs';
import { settled } from './settled.mjs';

/** @typedef {import('../../../js/node.js').Embedder} Embedder */

/** Texts that make a worker of tests/js/pool/faults.mjs go wrong, and the codes of their calls. */
const POISON = [
  ['FAULT throw', ['worker']],
  ['FAULT later', ['worker']],
  ['FAULT trap', ['trap', 'worker']],
  ['FAULT exit', ['worker']],
  ['FAULT garbage', ['worker']],
  [`FAULT grow ${'words '.repeat(500)}`, ['memory', 'worker']],
];

/** Callers that wait for one call after the other. */
const CALLERS = 6;

/** Most texts of a call. */
const MOST_TEXTS = 40;

/**
 * Texts of all lengths, no two alike.
 * @param {number} count
 */
export function stormTexts(count) {
  return shortTexts(count, 0).map((text, i) =>
    i % 50 === 0 ? `${text} ${'and more words '.repeat(i % 17)}` : text,
  );
}

/**
 * Callers ask for the rows of all texts, some texts more than once, while workers are killed, calls are
 * aborted and the sparse options change. Every call settles with the bits of `expected` or an error
 * that says why; afterwards every text has its row.
 * @param {object} how
 * @param {typeof import('../../../js/node.js').Embedder} how.Embedder
 * @param {any} how.model
 * @param {() => any} how.makeWorker
 * @param {(worker: any) => void} how.killWorker
 * @param {number} how.seed
 * @param {string[]} how.texts
 * @param {Float32Array} how.expected the rows of the engine alone
 * @param {number} how.workers
 * @param {number} how.kills
 * @param {boolean} how.poison whether makeWorker's workers know POISON
 * @returns {Promise<Record<string, number>>} counts of what happened
 */
export async function storm(how) {
  const { Embedder, makeWorker, killWorker, seed, texts, expected, workers, kills, poison } = how;
  const random = new Random(seed);
  const size = expected.length / texts.length;
  /** @type {Record<string, number>} */
  const counts = { texts: 0, calls: 0, kills: 0 };
  const count = (/** @type {string} */ what) => (counts[what] = (counts[what] ?? 0) + 1);

  /** Workers that were not killed yet, and those of them that have begun to answer. */
  const alive = /** @type {any[]} */ ([]);
  const answering = new WeakSet();
  let started = 0;
  const worker = () => {
    started++;
    const made = makeWorker();
    alive.push(made);
    if (alive.length > workers) alive.shift(); // it ended by itself
    (made.on ?? made.addEventListener).call(made, 'message', () => answering.add(made));
    return made;
  };
  const options = { workers, worker, startTimeout: 3000 };
  const embedder = await settled(Embedder.load(how.model, options));
  let raging = true;
  let allSeen = false;

  /** @param {any} victim */
  function kill(victim) {
    alive.splice(alive.indexOf(victim), 1);
    killWorker(victim);
    count('kills');
  }

  async function killAtRandom() {
    let seen = -1;
    while (raging && (counts.kills < kills || !allSeen)) {
      await pause(random.below(random.pick([10, 50, 300])));
      // If workers are slow to start, kills without a pause would let no call end well.
      if (counts.texts === seen && !random.oneIn(10)) continue;
      seen = counts.texts;
      // A page notices only after startTimeout that a worker ended while it started.
      const victims = random.oneIn(10) ? alive : alive.filter((each) => answering.has(each));
      if (victims.length === 0) continue;
      if (random.oneIn(8)) [...victims].forEach(kill);
      else kill(random.pick(victims));
    }
    raging = false;
  }

  /** Asks for all texts, call after call, each again until it gives its rows. */
  async function embedAll() {
    for (let first = 0; raging && first < texts.length;) {
      const end = Math.min(texts.length, first + random.range(1, MOST_TEXTS));
      if (await embedSome(first, end)) first = end;
    }
    allSeen = true;
  }

  /**
   * @param {Promise<any>} call
   * @param {string[]} codes that it may fail with
   * @returns {Promise<any>} its value; undefined if it failed
   */
  async function settle(call, codes) {
    count('calls');
    try {
      return await settled(call);
    } catch (/** @type {any} */ error) {
      if (!(error instanceof WispError) || !codes.includes(error.code)) throw error;
      count(`failed as ${error.code}`);
    }
  }

  /**
   * @param {number} first
   * @param {number} end
   * @param {AbortSignal} [signal]
   */
  async function embedSome(first, end, signal) {
    const codes = signal ? ['worker', 'cancelled'] : ['worker'];
    const rows = await settle(embedder.embed(texts.slice(first, end), { signal }), codes);
    if (!rows) return false;
    sameBits(rows, expected.subarray(first * size, end * size), `texts ${first} to ${end}`);
    counts.texts += end - first;
    return true;
  }

  async function callAtRandom() {
    while (raging) {
      const first = random.below(texts.length);
      const length = random.oneIn(3) ? 1 : random.range(1, MOST_TEXTS);
      const end = Math.min(texts.length, first + length);
      const what = random.below(20);
      if (what === 0 && poison) {
        const [text, codes] = random.pick(POISON);
        const value = await settle(embedder.embed([String(text)]), [...codes]);
        check(!value, `${text} gave rows`);
      } else if (what === 1) {
        const ids = await settle(embedder.tokenize(texts[first]), ['worker']);
        check(!ids || ids.length >= 2, 'tokens are missing');
      } else if (what === 2) {
        // For this model the same options in other words: they change no bit, but the queue.
        const predictor = random.pick([undefined, /** @type {const} */ ('auto')]);
        await settle(embedder.setSparse({ predictor }), ['worker']);
      } else if (what < 6) {
        const abort = new AbortController();
        setTimeout(() => abort.abort(), random.below(20));
        await embedSome(first, end, abort.signal);
      } else {
        await embedSome(first, end);
      }
    }
  }

  try {
    const callers = Array.from({ length: CALLERS }, callAtRandom);
    await Promise.all([killAtRandom(), embedAll(), ...callers]);
    await pause(100); // the last kills become known
    for (let tries = 0; !(await embedSome(0, 1)); tries++) {
      check(tries < 2 * workers, 'the pool does not recover');
    }
    check(await embedSome(0, texts.length), 'all texts at once fail though nothing is killed');
    let stats = embedder.stats();
    // A busy machine may take long to notice the last kill. A worker that had no task is replaced when there is work.
    const complete = () => stats.workers === workers && stats.lostWorkers === started - workers;
    for (let tries = 0; tries < 300 && !complete(); tries++) {
      await pause(50);
      await embedSome(0, texts.length);
      stats = embedder.stats();
    }
    check(stats.workers === workers, `${stats.workers} workers are left`);
    check(stats.waitingTexts === 0, `${stats.waitingTexts} texts wait`);
    check(
      stats.lostWorkers === started - workers,
      `${started} were made: ${stats.lostWorkers} lost`,
    );
    counts['lost workers'] = stats.lostWorkers;
    await settled(embedder.close());
  } finally {
    raging = false;
    await settled(embedder.destroy());
  }
  return counts;
}
