// SPDX-License-Identifier: Apache-2.0
// Functions that the tests of browsers run inside a page.
import { Embedder } from '../../../js/browser.js';
import { Generator } from '../../../js/generate-browser.js';
import { pickBuild } from '../../../js/calls/load.js';
import { Engine } from '../../../js/engine/engine.js';
import { settled } from '../campaign/settled.mjs';
import { cases as textCases } from '../generator/cases.mjs';
import { cases } from '../pool/cases.mjs';
import { shortTexts } from '../pool/texts.mjs';
import { chunkCases } from '../texts/chunk-cases.mjs';
import { searchCases } from '../texts/search-cases.mjs';
import { streamCases } from '../texts/stream-cases.mjs';

export { killWorkers, loadMutants } from '../campaign/page.mjs';
export * from './cold.mjs';
export * from './cold-store.mjs';
export * from './convert.mjs';
export * from './hub.mjs';
export * from './lent.mjs';
export * from './neurons.mjs';
export * from './rerank.mjs';
export * from './team.mjs';
export * from './threads.mjs';
export * from './weights.mjs';

const FAULTY = new URL('../pool/faulty-browser.mjs', import.meta.url);
const SMALL = '/build/test-models/cls12.gguf';
const CALIBRATED = '/build/test-models/cls12-calibrated.gguf';

/** @param {string} url */
const fetchBytes = async (url) => new Uint8Array(await (await fetch(url)).arrayBuffer());

/** @param {Float32Array} rows */
function encode(rows) {
  const bytes = new Uint8Array(rows.buffer);
  let text = '';
  for (let at = 0; at < bytes.length; at += 32768) {
    text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  }
  return btoa(text);
}

/**
 * Computes rows with the module alone, in this page's thread.
 * @param {string[]} texts
 */
export async function embedAlone(texts) {
  const module = await WebAssembly.compile(await fetchBytes(`/js/wisp-${pickBuild()}.wasm`));
  const engine = await Engine.open(module, await fetchBytes('/models/wisp-default.gguf'));
  const rows = engine.embed(texts);
  const { kernels } = engine.info();
  engine.close();
  return { rows: encode(rows), kernels };
}

/**
 * Computes rows with the option `portable`, with each module that runs here.
 * @param {string[]} texts
 */
export async function embedPortable(texts) {
  const results = [];
  for (const build of pickBuild() === 'relaxed' ? ['relaxed', 'simd128'] : ['simd128']) {
    const module = await WebAssembly.compile(await fetchBytes(`/js/wisp-${build}.wasm`));
    const model = await fetchBytes('/models/wisp-default.gguf');
    const engine = await Engine.open(module, model, { portable: true });
    const { kernels } = engine.info();
    results.push({ build, kernels, rows: encode(engine.embed(texts)) });
    engine.close();
  }
  return results;
}

/**
 * Computes rows with the package, as a user does.
 * @param {string[]} texts
 * @param {number} workers
 */
export async function embedPooled(texts, workers) {
  const embedder = await Embedder.load(undefined, { workers });
  const rows = await embedder.embed(texts);
  const info = embedder.info();
  await embedder.close();
  return { rows: encode(rows), info };
}

/**
 * Loads a model from a Blob, again and again, while garbage is collected all the time. Chromium has to
 * be started with --expose-gc.
 * @param {number} times
 */
export async function loadAmongGarbage(times) {
  const blob = new Blob([await fetchBytes('/models/wisp-default.gguf')]);
  const timer = setInterval(/** @type {any} */ (globalThis).gc, 1);
  try {
    for (let i = 0; i < times; i++) {
      const embedder = await settled(Embedder.load(blob, { workers: 0 }));
      await embedder.close();
    }
  } finally {
    clearInterval(timer);
  }
  return times;
}

/** Embeds with one small model from every kind of source that a page has. */
export async function embedFromSources() {
  const bytes = await fetchBytes(SMALL);
  const sources = [
    SMALL,
    new URL(SMALL, location.href),
    new Blob([bytes]),
    new File([bytes], 'model.gguf'),
    bytes,
    bytes.buffer,
  ];
  const results = [];
  for (const source of sources) {
    const embedder = await Embedder.load(source, { workers: 2 });
    results.push(encode(await embedder.embed(['find the water', 'one', ''])));
    await embedder.close();
  }
  return { results, left: bytes.length };
}

export const isSecure = () => globalThis.isSecureContext;

/** Returns the error codes of sources that cannot be loaded. */
export async function failToLoad() {
  const codes = [];
  for (const source of ['/no/such/model.gguf', '/tests/js/page/blank.html', '/']) {
    const error = await Embedder.load(source).catch((/** @type {any} */ reason) => reason);
    codes.push(`${error.name} ${error.code}`);
  }
  return codes;
}

/** @param {string} name */
export async function runCase(name) {
  const made = new WeakSet();
  await cases[name]({
    Embedder: /** @type {any} */ (Embedder),
    model: await (await fetch(SMALL)).blob(),
    calibrated: await (await fetch(CALIBRATED)).blob(),
    makeWorker(query = '') {
      const url = new URL(FAULTY);
      url.search = query;
      const worker = new Worker(url, { type: 'module' });
      made.add(worker);
      return worker;
    },
    killWorker: (worker) => worker.terminate(),
    failMessage: (worker) => worker.dispatchEvent(new MessageEvent('messageerror')),
    missingScript: new URL('./no-such-worker.mjs', import.meta.url).href,
  });
}

/** Runs the cases of wisp-engine/text and wisp-engine/search; returns their names. */
export async function runTextsCases() {
  const all = { ...streamCases, ...chunkCases, ...searchCases };
  const model = await (await fetch(SMALL)).blob();
  for (const [name, run] of Object.entries(all)) {
    await run({ Embedder: /** @type {any} */ (Embedder), model }).catch((error) => {
      throw new Error(`${name}: ${error.message}`, { cause: error });
    });
  }
  return Object.keys(all);
}

/**
 * @param {string} name
 * @param {string} story what the native program writes
 * @param {string} reply what it replies
 * @param {import('../generator/inputs.mjs').Native} native what it writes otherwise
 */
export async function runTextCase(name, story, reply, native) {
  await textCases[name]({
    Generator: /** @type {any} */ (Generator),
    Embedder: /** @type {any} */ (Embedder),
    story,
    reply,
    native,
    decoder: '/models/wisp-stories.gguf',
    wide: '/build/test-models/wide.gguf',
    shared: crossOriginIsolated,
    encoder: SMALL,
    makeWorker: () => new Worker('/js/generate-worker-browser.js', { type: 'module' }),
    killWorker: (worker) => worker.terminate(),
    workers: undefined,
  });
}

/** @type {Embedder} */
let embedder;

/**
 * Embeds texts with two workers that stay from call to call.
 * @param {number} first
 * @param {number} end
 */
export async function embedMany(first, end) {
  embedder ??= await Embedder.load(undefined, { workers: 2 });
  for (let done = first; done < end; done += 500) await embedder.embed(shortTexts(500, done));
  const { texts, memoryBytes } = embedder.stats();
  return { texts, memoryBytes };
}

export async function closeMany() {
  await embedder.close();
}

/**
 * Opens and closes embedders.
 * @param {number} times
 * @param {'default'} [model] a small one unless given
 * @param {number} [workers] in an isolated page threads of one
 */
export async function cycle(times, model, workers = 1) {
  for (let i = 0; i < times; i++) {
    const one = await Embedder.load(model ? undefined : SMALL, { workers });
    await one.embed(['one', 'two']);
    await (i % 2 ? one.close() : one.destroy());
  }
}

/**
 * Saves an index in both stores of the browser, loads it again, and says what was found.
 * @param {number[]} bytes of an index of 2 dimensions
 */
export async function keepIndex(bytes) {
  const { Index } = await import('../../../js/index-browser.js');
  const index = await Index.open(Uint8Array.from(bytes));
  await index.add({ id: 'new', vector: [0, 2], metadata: { a: 1 } });
  const results = [];
  for (const place of ['opfs:notes.index', 'indexeddb:notes']) {
    const absent = await Index.load(`${place}-none`).catch((error) => error.code);
    await index.save(place);
    await index.save(place);
    const again = await Index.load(place);
    const [best] = await again.search([0, 1], { k: 1 });
    results.push({ absent, best, bytes: [...new Uint8Array(again.toBytes())] });
  }
  const refused = await Index.load('notes').catch((error) => error.code);
  return { results, refused };
}

/**
 * Saves an index again with more rows, and tells of each place what came of it.
 * @param {number} rows
 * @param {string} [fault] 'full': every write is refused. 'a broken pipe': those of a megabyte end so, as in Chromium
 */
export async function fillStorage(rows, fault = '') {
  const { Index } = await import('../../../js/index-browser.js');
  const [files, store] = [FileSystemWritableFileStream.prototype, IDBObjectStore.prototype];
  const { write } = files;
  const { put } = store;
  const results = [];
  for (const place of ['opfs:full.index', 'indexeddb:full']) {
    const index = await Index.load(place).catch(() => Index.create({ dimensions: 384 }));
    const before = index.size;
    await index.add(
      Array.from({ length: rows }, (_, i) => ({ id: `${i}`, vector: new Float32Array(384).fill(1 + (i % 9)) })), // prettier-ignore
    );
    const refuse = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };
    if (/full/.test(fault)) files.write = store.put = refuse;
    if (/pipe/.test(fault)) {
      const orFull = files.write;
      // As Chromium does with more bytes than its pipe takes.
      files.write = function (data) {
        if (/** @type {any} */ (data).byteLength < 1e6) return orFull.call(this, data);
        throw new DOMException('Failed to write data to data pipe', 'AbortError');
      };
    }
    const failed = await index.save(place).then(
      () => undefined,
      (/** @type {any} */ { code, field, message }) => ({ code, field, message }),
    );
    Object.assign(files, { write });
    Object.assign(store, { put });
    const { size } = await Index.load(place);
    // What is in memory is not lost either.
    results.push({ failed, before, size, inMemory: index.size });
  }
  return results;
}
