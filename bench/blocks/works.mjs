// SPDX-License-Identifier: Apache-2.0
// Large calls of the package, and how long each blocks the thread that makes it: in Node, and in a page that imports this.

/** What differs between Node and a page. @type {any} */
const node = /** @type {any} */ (globalThis).process?.versions?.node;
const [{ Index }, { Generator }, { Embedder }, { chunk }] = await (node
  ? Promise.all([
      import('../../js/index-node.js'),
      import('../../js/generate-node.js'),
      import('../../js/node.js'),
      import('../../js/text.js'),
    ])
  : Promise.all([
      import('../../js/index-browser.js'),
      import('../../js/generate-browser.js'),
      import('../../js/browser.js'),
      import('../../js/text.js'),
    ]));
const nextTask = node ? setImmediate : bySelf();
const wasm = /** @type {any} */ (node ? { backend: 'wasm' } : {});

const ROWS = 50_000;
const DIMENSIONS = 384;
const MESSAGES = 200_000;

/** Timers of pages wait for milliseconds, messages do not. */
function bySelf() {
  /** @type {(() => void)[]} */
  const waiting = [];
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => waiting.shift()?.();
  return (/** @type {() => void} */ body) => {
    waiting.push(body);
    port2.postMessage(undefined);
  };
}

/**
 * Returns the longest time in milliseconds between two tasks of a timer that runs whenever it can, while work runs.
 * @param {() => unknown} work
 */
async function longestBlock(work) {
  let longest = 0;
  let last = performance.now();
  let running = true;
  const tick = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (running) nextTask(tick);
  };
  await new Promise((resolve) => setTimeout(resolve, 20));
  last = performance.now();
  nextTask(tick);
  await work();
  await new Promise((resolve) => nextTask(() => resolve(undefined)));
  running = false;
  return longest;
}

const items = () =>
  Array.from({ length: ROWS }, (_, i) => ({
    id: `row ${i}`,
    vector: Float32Array.from({ length: DIMENSIONS }, (_, k) => Math.sin(i * DIMENSIONS + k)),
    metadata: { text: `the text of row ${i}, of some words` },
  }));
const messages = () =>
  Array.from({ length: MESSAGES }, (_, i) => ({
    role: i % 2 ? 'assistant' : 'user',
    content: `message ${i} of a long conversation`,
  }));
const story = () => 'Once upon a time there was a little girl. '.repeat(120_000).slice(0, 5e6);

async function fullIndex() {
  const index = await Index.create({ dimensions: DIMENSIONS });
  await index.add(items());
  return index;
}

/** Loads the default model, once and in each round. @param {() => Promise<any>} source */
async function loading(source) {
  const model = await source();
  return async () => (await Embedder.load(model, { workers: 1, ...wasm })).close();
}

/** The bytes of the default model. */
const bytes = async () =>
  node
    ? (await import('node:fs')).readFileSync(new URL('../../models/wisp-default.gguf', import.meta.url)) // prettier-ignore
    : new Uint8Array(await (await fetch('/models/wisp-default.gguf')).arrayBuffer());

/** What outgrows the model's context is refused. @param {{ text(): Promise<string> }} generation */
const refused = (generation) => generation.text().then(() => {}, () => {}); // prettier-ignore

/** @param {any} list @param {object} options of Generator.load */
async function chatting(list, options) {
  const generator = await Generator.load(undefined, options);
  return () => refused(generator.chat(list, { format: 'plain' }));
}

/** @param {object} options of Generator.load */
async function continuing(options) {
  const generator = await Generator.load(undefined, options);
  const text = story();
  return () => refused(generator.generate(text));
}

/**
 * Makes a work from a place for an index.
 * @type {Record<string, (place: string) => Promise<() => unknown>>}
 */
export const WORKS = {
  'Index.add of 50,000 vectors': async () => {
    const list = items();
    return async () => (await Index.create({ dimensions: DIMENSIONS })).add(list);
  },
  'Index.open': async () => {
    const bytes = (await fullIndex()).toBytes();
    return () => Index.open(bytes);
  },
  'Index.arrayBuffer': async () => {
    const index = await fullIndex();
    return () => index.arrayBuffer();
  },
  'Index.toBytes, in one task': async () => {
    const index = await fullIndex();
    return () => index.toBytes();
  },
  'Index.save': async (place) => {
    const index = await fullIndex();
    return () => index.save(place, { force: true });
  },
  'Index.load': async (place) => {
    await (await fullIndex()).save(place);
    return () => Index.load(place);
  },
  'Index.search': async () => {
    const index = await fullIndex();
    return () => index.search(new Float32Array(DIMENSIONS).fill(1));
  },
  ...(!node && {
    'Index.save, in IndexedDB': async () => {
      const index = await fullIndex();
      return () => index.save('indexeddb:x.index', { force: true });
    },
  }),
  'Embedder.load': () => loading(async () => undefined),
  'Embedder.load of bytes': () => loading(bytes),
  'chunk of a text of 5 MB': async () => {
    const embedder = /** @type {any} */ ({
      info: () => ({ maxTokens: 256 }),
      countTokens: async (/** @type {string[]} */ texts) =>
        texts.map(({ length }) => 2 + length / 4),
    });
    const text = story();
    return () => chunk(embedder, text);
  },
  'detokenize of 1,000,000 ids': async () => {
    const generator = await Generator.load(undefined, wasm);
    const ids = Array.from({ length: 1e6 }, (_, i) => 300 + (i % 100));
    return () => generator.detokenize(ids);
  },
  'a prompt of 5 MB, workers: 0': () => continuing({ workers: 0 }),
  'a prompt of 5 MB': () => continuing(wasm),
  'chat of 200,000 messages, workers: 0': () => chatting(messages(), { workers: 0 }),
  'chat of 200,000 messages': () => chatting(messages(), wasm),
  'chat of a message of 5 MB, workers: 0': () =>
    chatting([{ role: 'user', content: story() }], { workers: 0 }),
  'chat of a message of 5 MB': () => chatting([{ role: 'user', content: story() }], wasm),
};

/**
 * Resolves to the longest blocks of rounds of a work, after one that compiles what it needs.
 * @param {string} name
 * @param {number} rounds
 * @param {string} place
 */
export async function measure(name, rounds, place) {
  const work = await WORKS[name](place);
  await longestBlock(work);
  const blocks = [];
  for (let round = 0; round < rounds; round++) blocks.push(await longestBlock(work));
  return blocks;
}
