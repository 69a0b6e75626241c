// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of workers that share a page's memory run inside a page.
import { Embedder } from '../../../js/browser.js';
import { pickBuild } from '../../../js/calls/load.js';
import { inTime } from '../pool/checks.mjs';
import { shortTexts } from '../pool/texts.mjs';

const SMALL = '/build/test-models/cls12.gguf';
const TEXTS = [...shortTexts(300, 0), 'water finds its own way down from any hill '.repeat(30)];

/** @param {Embedder} embedder */
async function rowsOf(embedder) {
  const rows = await inTime(embedder.embed(TEXTS));
  return [...rows].map((row) => Array.from(row).join()).join();
}

/** Options by which a page names a worker or a module of its own. */
const OWN = {
  worker: () => ({ worker: '/js/worker-browser.js' }),
  wasm: () => ({ wasm: `/js/wisp-${pickBuild()}.wasm` }),
  async integrity() {
    const module = await (await fetch(`/js/wisp-${pickBuild()}.wasm`)).arrayBuffer();
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', module));
    return { integrity: { wasm: `sha256-${btoa(String.fromCharCode(...digest))}` } };
  },
};

/**
 * Loads a small model; returns its rows, and what it is computed by.
 * @param {object} options
 * @param {keyof typeof OWN} [own]
 */
export async function loadTeam(options, own) {
  const embedder = await inTime(
    Embedder.load(SMALL, { ...options, ...(own && (await OWN[own]())) }),
  );
  const rows = await rowsOf(embedder);
  const { workers, threads, reasons } = embedder.info();
  const stats = embedder.stats();
  await inTime(embedder.close());
  return { rows, workers, threads, reason: reasons.workers, reasons, stats };
}

/**
 * Does that while something is wrong with what threads need.
 * @param {'thread' | 'module'} what
 * @param {object} [options]
 */
export async function loadWithout(what, options = { workers: 2 }) {
  const { Worker, fetch } = globalThis;
  let made = 0;
  if (what === 'thread')
    globalThis.Worker = class extends Worker {
      /** @param {any} url @param {any} options */
      constructor(url, options) {
        // A worker with threads starts first, and its first thread second.
        if (/threads/.test(url) && ++made === 2) throw new Error('no more of them');
        super(url, options);
      }
    };
  if (what === 'module')
    globalThis.fetch = async (url, ...more) =>
      /embed-threads/.test(String(url)) ? new Response('', { status: 404 }) : fetch(url, ...more);
  try {
    return await loadTeam(options);
  } finally {
    Object.assign(globalThis, { Worker, fetch });
  }
}

/** Loads a model that is not there; says how often it was asked for, too. */
export async function loadMissing() {
  const { fetch } = globalThis;
  let fetched = 0;
  globalThis.fetch = (url, ...more) => {
    if (/no-such/.test(String(url))) fetched++;
    return fetch(url, ...more);
  };
  try {
    const loading = Embedder.load('/no-such.gguf', { workers: 2 });
    const { code, message } = await inTime(loading.catch((/** @type {any} */ error) => error));
    return { code, message, fetched };
  } finally {
    globalThis.fetch = fetch;
  }
}

/** Loads if the browser refuses shared memory; says how often the model was fetched, too. */
export async function loadWithoutMemory() {
  const { fetch } = globalThis;
  const { Memory } = WebAssembly;
  let fetched = 0;
  globalThis.fetch = (url, ...more) => {
    if (String(url).endsWith(SMALL)) fetched++;
    return fetch(url, ...more);
  };
  WebAssembly.Memory = class extends Memory {
    /** @param {WebAssembly.MemoryDescriptor} descriptor */
    constructor(descriptor) {
      if (descriptor.shared) throw new RangeError('no room');
      super(descriptor);
    }
  };
  try {
    const pool = await loadTeam({ workers: 2 });
    const asked = await loadTeam({ threads: 2 });
    return { pool, asked, fetched };
  } finally {
    Object.assign(globalThis, { fetch });
    WebAssembly.Memory = Memory;
  }
}

/** Terminates the worker of a team while calls wait for it; returns their rows. */
export async function loseTeam() {
  const { Worker } = globalThis;
  /** @type {Worker[]} */
  const made = [];
  globalThis.Worker = class extends Worker {
    /** @param {any} url @param {any} options */
    constructor(url, options) {
      super(url, options);
      made.push(this);
    }
  };
  try {
    const embedder = await inTime(Embedder.load(SMALL, { workers: 2 }));
    const calls = [rowsOf(embedder), rowsOf(embedder)];
    made[0].terminate();
    const rows = await Promise.all(calls);
    rows.push(await rowsOf(embedder));
    const { lostWorkers, workers } = embedder.stats();
    await inTime(embedder.close());
    return { rows, lostWorkers, workers };
  } finally {
    globalThis.Worker = Worker;
  }
}

/**
 * Loads the default model for the rest of this page's life.
 * @param {number} workers
 */
export async function stay(workers) {
  const embedder = await Embedder.load(undefined, { workers });
  await embedder.embed(['A first sentence.']);
  Object.assign(globalThis, { embedder });
}
