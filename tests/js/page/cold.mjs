// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of cold neurons run inside a page.
import { Embedder } from '../../../js/browser.js';
import '../../../js/cold-browser.js';
import { HttpFile } from '../../../js/ranges/cold-http.js';
import { Ranges } from '../../../js/ranges/cold-ranges.js';

const SIZES = { gap: 64, first: 4096, complete: false, store: false };

/** @param {Float32Array} rows */
const bits = (rows) => Array.from(new Uint32Array(rows.buffer)).join();

/**
 * Embeds texts by ranges, and says whether rows have the bits of the whole model.
 * @param {string} url
 * @param {string[]} texts
 * @param {number} workers
 */
export async function embedByRanges(url, texts, workers) {
  const whole = await Embedder.load(url, { workers: 1, predictor: 'lowrank' });
  const expected = bits(await whole.embed(texts));
  await whole.close();
  const embedder = await Embedder.load(url, { workers, cold: { mode: 'wait', ...SIZES } });
  const [first, second] = await Promise.all([embedder.embed(texts), embedder.embed(texts)]);
  const { cold } = /** @type {any} */ (embedder.stats());
  const { sharedMemory, workers: count, threads } = embedder.info();
  await embedder.close();
  const skipping = await Embedder.load(url, {
    workers,
    cold: { mode: 'skip', ...SIZES },
  });
  const { skipped } = /** @type {any} */ (await skipping.embed(texts));
  await skipping.close();
  return {
    equal: bits(first) === expected && bits(second) === expected,
    cold,
    sharedMemory,
    pool: [count, threads],
    skipped,
  };
}

/**
 * Embeds texts if something is not there that threads need.
 * @param {'thread' | 'module'} what
 * @param {string} url
 * @param {string[]} texts
 */
export async function embedWithout(what, url, texts) {
  const { fetch, Worker } = globalThis;
  let made = 0;
  if (what === 'thread')
    globalThis.Worker = class extends Worker {
      /** @param {any} address @param {any} options */
      constructor(address, options) {
        if (++made === 2) throw new Error('no more of them');
        super(address, options);
      }
    };
  if (what === 'module')
    globalThis.fetch = async (address, ...more) =>
      /embed-threads/.test(String(address))
        ? new Response('', { status: 404 })
        : fetch(address, ...more);
  try {
    const embedder = await Embedder.load(url, { workers: 2, cold: { mode: 'wait', ...SIZES } });
    const rows = bits(await embedder.embed(texts));
    const { workers, threads, reasons } = embedder.info();
    await embedder.close();
    return { rows, pool: [workers, threads], reason: reasons.workers };
  } finally {
    Object.assign(globalThis, { fetch, Worker });
  }
}

/**
 * Terminates the worker of two threads while it waits for ranges; returns the rows of the call and of a later one.
 * @param {string} url
 * @param {string[]} texts
 */
export async function loseWhileWaiting(url, texts) {
  const { Worker } = globalThis;
  /** @type {Worker[]} */
  const made = [];
  globalThis.Worker = class extends Worker {
    /** @param {any} address @param {any} options */
    constructor(address, options) {
      super(address, options);
      made.push(this);
    }
  };
  try {
    const embedder = await Embedder.load(url, { workers: 2, cold: { mode: 'wait', ...SIZES } });
    await fetch(new URL('/fault', url));
    const call = embedder.embed(texts);
    await fetch(new URL('/asked', url));
    made[0].terminate();
    await fetch(new URL('/mend', url));
    const rows = [bits(await call), bits(await embedder.embed(texts))];
    const { lostWorkers, workers } = embedder.stats();
    const { threads } = embedder.info();
    await embedder.close();
    return { rows, pool: [workers, threads], lostWorkers, made: made.length };
  } finally {
    globalThis.Worker = Worker;
  }
}

/**
 * Embeds texts with the least memory that a model may have, and says whether rows have the bits of the whole model.
 * @param {string} url
 * @param {string[]} texts
 * @param {number} workers
 */
export async function embedInLeastMemory(url, texts, workers) {
  const whole = await Embedder.load(url, { workers: 1, predictor: 'lowrank' });
  const expected = bits(await whole.embed(texts));
  await whole.close();
  const how = { workers, cold: { mode: /** @type {'wait'} */ ('wait'), ...SIZES } };
  const { code, message } = await Embedder.load(url, { ...how, memory: 1 }).catch((error) => error);
  const memory = Number(/the least is (\d+) bytes/.exec(message)?.[1]);
  const embedder = await Embedder.load(url, { ...how, memory });
  const rows = [await embedder.embed(texts), await embedder.embed(texts)];
  const { cold } = /** @type {any} */ (embedder.stats());
  await embedder.close();
  return { code, cold, equal: rows.every((each) => bits(each) === expected) };
}

/**
 * Embeds texts from a server that answers wrongly when it is asked to by /fault, then rightly.
 * @param {string} url
 * @param {string[]} texts
 */
export async function embedFromFaulty(url, texts) {
  const embedder = await Embedder.load(url, { workers: 0, cold: { mode: 'wait', ...SIZES } });
  const told = (/** @type {string} */ path) => fetch(new URL(path, url));
  await told('/fault');
  const found = await embedder.embed(texts).then(bits, ({ name, code, message }) => ({ name, code, message })); // prettier-ignore
  await told('/mend');
  const rows = bits(await embedder.embed(texts));
  const { lostWorkers } = embedder.stats();
  await embedder.close();
  return {
    error: typeof found === 'string' ? undefined : found,
    equal: typeof found !== 'string' || found === rows,
    rows,
    lostWorkers,
  };
}

/**
 * Opens a model from a server, which may answer wrongly, and embeds texts.
 * @param {string} url
 * @param {string[]} texts
 */
export async function openFromFaulty(url, texts) {
  try {
    const how = { mode: /** @type {'wait'} */ ('wait'), ...SIZES };
    const embedder = await Embedder.load(url, { workers: 0, cold: how, predictor: 'lowrank' });
    const rows = bits(await embedder.embed(texts));
    const { cold } = /** @type {any} */ (embedder.stats());
    await embedder.close();
    return { rows, mode: cold.mode };
  } catch (error) {
    const { name, code, message } = /** @type {any} */ (error);
    return { error: { name, code, message } };
  }
}

/**
 * Returns the bits of the rows of the whole model, which the browser may have in its cache in parts.
 * @param {string} url
 * @param {string[]} texts
 */
export async function embedWhole(url, texts) {
  const embedder = await Embedder.load(url, { workers: 1, predictor: 'lowrank' });
  const rows = bits(await embedder.embed(texts));
  await embedder.close();
  return rows;
}

/**
 * Fetches a range from a server that sends nothing for 50 ms at a time. Returns how often it was asked, or the error.
 * @param {string} url
 */
export async function fetchStalled(url) {
  const file = new HttpFile(url, 50);
  const ranges = new Ranges(file, 0);
  return ranges.need([[0, 1000]], new AbortController().signal).then(
    ([{ bytes }]) => ({ bytes: Array.from(bytes), requests: file.requests }),
    ({ name, code, message }) => ({ error: { name, code, message } }),
  );
}

/**
 * Aborts a call when the server has been asked for neurons and does not answer.
 * @param {string} url
 * @param {string[]} texts
 */
export async function abortRanges(url, texts) {
  const embedder = await Embedder.load(url, { workers: 2, cold: { mode: 'wait', ...SIZES } });
  await fetch(new URL('/fault', url));
  const stop = new AbortController();
  const call = embedder
    .embed(texts, { signal: stop.signal })
    .catch(({ name, code }) => ({ name, code }));
  await fetch(new URL('/asked', url));
  stop.abort();
  const error = await call;
  await fetch(new URL('/mend', url));
  const rows = await embedder.embed(texts);
  const { lostWorkers } = embedder.stats();
  await embedder.close();
  return { error, count: rows.count, lostWorkers };
}
