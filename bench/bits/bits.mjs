// SPDX-License-Identifier: Apache-2.0
// Does the work of bits.c with both WebAssembly modules, through the package's own interface: prints a
// line for each way to run each model, with a hash of everything that embedding computes. See
// README.md.
//
//   node bench/bits/bits.mjs [--texts FILE] [--kernels SET,SET] MODEL.gguf...
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { Embedder } from '../../js/node.js';

const GENERATED = 48; // the program makes this many texts
const FEW_STEP = 8; // `few` takes one text in this many
const SCALAR_STEP = 30; // the scalar kernel set, which is slow, takes one text in this many
const LONG_WORDS = 900;
const CUT = 100; // values of a row of fewer dimensions

const { values: options, positionals: paths } = parseArgs({
  allowPositionals: true,
  options: {
    texts: { type: 'string' },
    // The package has no list of its kernel sets. A module skips the sets that it lacks.
    kernels: { type: 'string', default: 'relaxed,relaxed-signed,relaxed-narrow,simd128,scalar' },
  },
});
if (!paths.length) {
  console.error('usage: bits.mjs [--texts FILE] [--kernels SET,SET] MODEL.gguf...');
  process.exit(2);
}

// ---- hashes ----------------------------------------------------------------------------------------

/** Computes an FNV-1a hash of 64 bits, in two halves. */
class Hash {
  #high = 0xcbf29ce4;
  #low = 0x84222325;

  /** @param {ArrayBufferView} values */
  add({ buffer, byteOffset, byteLength }) {
    let [high, low] = [this.#high, this.#low];
    for (const byte of new Uint8Array(buffer, byteOffset, byteLength)) {
      low = (low ^ byte) >>> 0;
      // The prime is 2^40 + 0x1b3; all products stay below 2^53.
      const product = low * 0x1b3;
      high = (high * 0x1b3 + Math.floor(product / 2 ** 32) + ((low << 8) >>> 0)) % 2 ** 32;
      low = product % 2 ** 32;
    }
    [this.#high, this.#low] = [high, low];
    return this;
  }

  toString() {
    return [this.#high, this.#low].map((half) => half.toString(16).padStart(8, '0')).join('');
  }
}

// ---- texts -----------------------------------------------------------------------------------------

/** Plain words come first, then words that are hard for tokenizers. bits.c has a copy. */
const PLAIN_WORDS = 28;
const WORDS = `the of and a to in is was man woman dog house water
music city science river market history engine eating playing
quickly however between temperature government photosynthesis
counterrevolutionary 1987 3.14159 don't U.S.A. (sic) co-operate café
naïve ﬁnance İstanbul Straße Москва 北京大学 한국어 नमस्ते 😀👍🏽 #tag
https://example.org/a?b=c&d=1 xqzwvkjj ANTIDISESTABLISHMENTARIANISM -- ...`.split(/[ \n]/);

let state = 1;

/** Returns a number below n. Its sequence is equal in every run. @param {number} n */
function chance(n) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return (state >>> 16) % n;
}

/** Makes a text of `count` words, about one in five of which is a hard one. @param {number} count */
function textOfWords(count) {
  const chosen = Array.from(
    { length: count },
    () => WORDS[chance(chance(5) ? PLAIN_WORDS : WORDS.length)],
  );
  return `${chosen.join(' ')}.`;
}

/** Mostly sentences, some passages, and one text in 24 that is as long as models allow. */
const texts = Array.from({ length: GENERATED }, (_, i) => {
  const most = i % 24 === 23 ? 300 : i % 8 === 7 ? 90 : 20;
  return textOfWords(Math.floor(most / 4) + chance(most));
});
const longest = textOfWords(LONG_WORDS);
if (options.texts)
  texts.push(...readFileSync(options.texts, 'utf8').replace(/\n$/, '').split('\n'));

/** @param {number} step */
const every = (step) => texts.filter((_, i) => i % step === 0);

const MALFORMED = 'caf\ud83d \udc00\udc00 \ud800 end';

/** The texts that a kernel set embeds. The scalar set, which is slow, embeds FEWER. */
const SAMPLES = { all: texts, few: every(FEW_STEP), longest };
const FEWER = { all: every(SCALAR_STEP), few: ['a small house'], longest: 'a small house' };

// ---- lines -----------------------------------------------------------------------------------------

/**
 * One way to run a model. Every line begins with these fields.
 * @typedef {object} Way
 * @property {string} model
 * @property {string} kernels the module's name and the kernel set's
 * @property {'auto' | 'f32' | 'int8'} compute
 * @property {'auto' | 'dense' | 'exact' | 'lowrank' | 'sentence'} predictor
 * @property {string} sparsity
 * @property {number} workers
 */

/**
 * Prints the result of `work` or its error. Returns whether it succeeded.
 * @param {string} label
 * @param {() => unknown} work
 */
async function line(label, work) {
  try {
    console.log(`${label} : ${await work()}`);
    return true;
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    console.log(`${label} : error: ${message}`);
    return false;
  }
}

/**
 * @param {Way} way
 * @param {string} what
 * @param {{ prompt?: string, dimensions?: number }} [call]
 */
function label(way, what, { prompt, dimensions } = {}) {
  const { model, kernels, compute, predictor, sparsity, workers } = way;
  const asked = prompt === undefined ? 'default' : prompt || 'none';
  const parts = [model, kernels, compute, predictor, sparsity, workers, asked];
  return [...parts, dimensions ?? 'all', what].join(' / ');
}

// ---- runs ------------------------------------------------------------------------------------------

/** Hashes the neurons that each layer computed and, with `recall`, those it needed.
 * @param {Embedder} embedder @param {boolean} recall */
function count(embedder, recall) {
  const hash = new Hash();
  for (const layer of embedder.stats().layers) {
    const { tokens, neurons, computed, contributing, compared, needed, found } = layer;
    hash.add(BigUint64Array.from([tokens, neurons, computed, contributing].map(BigInt)));
    if (recall) hash.add(BigUint64Array.from([compared, needed, found].map(BigInt)));
  }
  return hash;
}

/**
 * @param {Embedder} embedder
 * @param {Way} way
 * @param {string | string[]} list
 * @param {string} what
 * @param {{ prompt?: string, dimensions?: number }} [call]
 */
const embed = (embedder, way, list, what, call) =>
  line(label(way, what, call), async () => new Hash().add(await embedder.embed(list, call)));

/** Embeds all texts, then runs cases that do not depend on the number of workers.
 * @param {Embedder} embedder @param {Way} way @param {typeof SAMPLES} samples */
async function runWhole(embedder, way, { all, few, longest: long }) {
  await embed(embedder, way, all, 'batch');
  await line(label(way, 'counts'), () => count(embedder, false));
  await embed(embedder, way, long, 'long');
  await line(label(way, 'one by one'), async () => {
    const hash = new Hash();
    for (const text of few) hash.add(await embedder.embed(text));
    return hash;
  });
  await embed(embedder, way, '', 'empty');
  await embed(embedder, way, MALFORMED, 'malformed');
  const most = embedder.dimensions;
  for (const dimensions of [1, CUT, most, most + 1])
    await embed(embedder, way, few, 'few', { dimensions });
  for (const prompt of ['', 'query', 'passage', 'a prompt: '])
    await embed(embedder, way, few, 'few', { prompt });
}

/** Embeds some texts with other sparsities. @param {Embedder} embedder @param {Way} way
 * @param {typeof SAMPLES} samples */
async function runSparse(embedder, way, { few }) {
  const { predictor } = way;
  // With exact, setting any sparsity is an error, so one is enough.
  for (const sparsity of predictor === 'exact' ? [0.3] : [0, 0.9, 1.5, 0.3]) {
    const other = { ...way, sparsity: String(sparsity) };
    const change = async () => (await embedder.setSparse({ predictor, sparsity }), 'set');
    if (!(await line(label(other, 'session'), change))) continue;
    await embed(embedder, other, few, 'few');
    await line(label(other, 'counts'), () => count(embedder, false));
  }
}

// ---- models ----------------------------------------------------------------------------------------

/** @type {Pick<Way, 'compute' | 'predictor'>[]} */
const WAYS = [
  { compute: 'f32', predictor: 'dense' },
  { compute: 'f32', predictor: 'lowrank' },
  { compute: 'int8', predictor: 'dense' },
  { compute: 'int8', predictor: 'exact' },
  { compute: 'int8', predictor: 'lowrank' },
  { compute: 'int8', predictor: 'sentence' },
];

/** @typedef {{ name: string, bytes: SharedArrayBuffer }} Model */
/** @typedef {{ name: string, module: WebAssembly.Module }} Build */

/**
 * Opens the model and lets `work` run it. Returns false if it cannot be opened.
 * @param {Model} model
 * @param {Build} build
 * @param {Way} way
 * @param {import('../../types/index.js').LoadOptions} more
 * @param {(embedder: Embedder) => Promise<void>} [work]
 */
function open({ bytes }, { module }, way, more, work) {
  const { compute, predictor, workers } = way;
  const what = more.recall ? 'opened with recall as' : 'opened as';
  return line(label(way, what), async () => {
    const settings = { wasm: module, compute, predictor, workers, ...more };
    const embedder = await Embedder.load(bytes, settings);
    const { kernels, compute: computes, predictor: predicts, sparsity } = embedder.info();
    await work?.(embedder);
    await embedder.close();
    return [kernels, computes, predicts, sparsity].join(' ');
  });
}

/** @param {Model} model @param {Build} build @param {string} kernels */
async function runKernels(model, build, kernels) {
  const samples = kernels === 'scalar' ? FEWER : SAMPLES;
  const way = { model: model.name, sparsity: 'own', workers: 0 };
  const set = { ...way, kernels: `${build.name} ${kernels}` };
  if (!(await open(model, build, { ...set, compute: 'auto', predictor: 'auto' }, { kernels })))
    return;
  for (const chosen of WAYS) {
    const one = { ...set, ...chosen };
    const sparse = chosen.predictor !== 'dense';
    const opened = await open(model, build, one, { kernels }, async (embedder) => {
      await runWhole(embedder, one, samples);
      if (sparse) await runSparse(embedder, one, samples);
    });
    if (!opened || !sparse) continue;
    await open(model, build, one, { kernels, recall: true }, async (embedder) => {
      await embed(embedder, one, samples.few, 'few, recall');
      await line(label(one, 'counts, recall'), () => count(embedder, true));
    });
  }
}

/** Runs the package with default options and workers. @param {Model} model @param {Build} build */
async function runWorkers(model, build) {
  /** @type {Way} */
  const way = {
    model: model.name,
    kernels: `${build.name} default`,
    compute: 'auto',
    predictor: 'auto',
    sparsity: 'own',
    workers: 2,
  };
  await open(model, build, way, {}, async (embedder) => {
    await embed(embedder, way, texts, 'batch');
    await line(label(way, 'counts'), () => count(embedder, false));
  });
}

/** Prints the lines that do not depend on kernels. @param {Model} model @param {Build} build */
function printModel(model, build) {
  const first = `${model.name} / ${build.name}`;
  return line(`${first} / info`, async () => {
    const embedder = await Embedder.load(model.bytes, { wasm: build.module, workers: 0 });
    const i = embedder.info();
    for (const [what, list] of Object.entries({ all: texts, special: [longest, MALFORMED, ''] }))
      await line(`${first} / tokens, ${what}`, async () => {
        const hash = new Hash();
        for (const text of list) {
          const ids = await embedder.tokenize(text);
          hash.add(ids).add(Uint32Array.of(ids.length));
        }
        return hash;
      });
    await embedder.close();
    const sizes = [i.hiddenSize, i.intermediateSize, i.layers, i.heads, i.vocabularySize];
    return [i.name, i.architecture, i.pooling, ...sizes, i.maxTokens, i.parameters].join(' ');
  });
}

/** @param {string} path */
function readShared(path) {
  const file = readFileSync(path);
  const bytes = new SharedArrayBuffer(file.length);
  new Uint8Array(bytes).set(file);
  return bytes;
}

/** @param {string} name @returns {Promise<Build>} */
async function compile(name) {
  const file = new URL(`../../js/wisp-${name}.wasm`, import.meta.url);
  return { name, module: await WebAssembly.compile(readFileSync(file)) };
}

const builds = [await compile('simd128'), await compile('relaxed')];
for (const path of paths) {
  const model = { name: basename(path), bytes: readShared(path) };
  for (const build of builds) {
    if (!(await printModel(model, build))) continue;
    await runWorkers(model, build);
    for (const kernels of options.kernels.split(',')) await runKernels(model, build, kernels);
  }
}
