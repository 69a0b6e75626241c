// SPDX-License-Identifier: Apache-2.0
// Runs the page that compares wisp and transformers.js, and draws what it measures.
import { Embedder } from '../js/browser.js';
import { at, count, keepForLater, megabytes, showFailure } from './page.js';

/** Where transformers.js comes from when a user says so; the address of the page may name other places, with models. */
const { searchParams } = new URL(location.href);
const LIBRARY = new URL(
  searchParams.get('transformers') ??
    'https://cdn.jsdelivr.net/npm/@huggingface/transformers@4.3.1/dist/transformers.min.js',
  location.href,
);
const MODELS = searchParams.get('models');

/** Bytes that it fetches for each kind of weights: of the model on the hub, and of the library with its module. */
const FETCHED = { q8: 23, fp32: 90, library: 27 };

const ROUNDS = Number(searchParams.get('rounds') ?? 9);
/** Texts that are embedded one by one in each round. */
const SINGLE = 8;
const BATCHES = [1, 8, 32];

/**
 * @typedef {object} Engine
 * @property {string} name
 * @property {number} opened seconds
 * @property {number} batch 0: all
 * @property {(texts: string[]) => Promise<Float32Array>} embed the rows, one behind the other
 * @property {() => void} close
 * @property {number[]} single milliseconds of a text, by round
 * @property {number[]} all and of each of all texts
 * @property {number} cosine to wisp
 */

const start = /** @type {HTMLButtonElement} */ (at('start'));
const alone = /** @type {HTMLButtonElement} */ (at('alone'));
const isChosen = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (at(id)).checked;
const say = (/** @type {string} */ text) => (at('status').textContent = text);

const median = (/** @type {number[]} */ values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
const milliseconds = (/** @type {number} */ ms) => `${ms.toFixed(ms < 10 ? 2 : 1)} ms`;

/** @param {() => Promise<unknown>} body */
async function timed(body) {
  const from = performance.now();
  await body();
  return performance.now() - from;
}

const texts = (await (await fetch(new URL('./sample.txt', import.meta.url))).text()).trimEnd().split('\n'); // prettier-ignore

// ---- engines ----------------------------------------------------------------------------------------

/** @returns {Promise<Engine>} */
async function openWisp() {
  const from = performance.now();
  const embedder = await Embedder.load();
  const opened = (performance.now() - from) / 1000;
  const { threads, workers, compute, modelBytes } = embedder.info();
  const members = workers * (threads ?? 1);
  at('threads').textContent =
    `Here wisp has ${count(members, 'thread')}, computes by ${compute} and fetches ${megabytes(modelBytes)}.`;
  return {
    ...{ name: 'wisp', opened, batch: 0, single: [], all: [], cosine: 1 },
    embed: async (given) => {
      const rows = await embedder.embed(given);
      return Float32Array.from([...rows].flatMap((row) => [...row]));
    },
    close: () => void embedder.close(),
  };
}

/**
 * @param {string} dtype
 * @param {string} device
 * @param {number} threads
 * @returns {Promise<Engine>}
 */
async function openTransformers(dtype, device, threads) {
  const worker = new Worker(new URL('./compare-worker.js', import.meta.url), { type: 'module' });
  const ask = (/** @type {any} */ wanted) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data));
      worker.onerror = (event) => reject(new Error(event.message || 'the worker did not start'));
      worker.postMessage(wanted);
    });
  const models = MODELS && new URL(MODELS, location.href).pathname; // a whole URL would do without the tokenizer
  let version = '';
  const ms = await timed(async () => {
    ({ version } = await ask({ library: LIBRARY.href, models, how: { dtype, device }, threads }));
  });
  /** @type {Engine} */
  const engine = {
    ...{ name: `transformers.js ${version} ${dtype}${device === 'webgpu' ? ', WebGPU' : ''}` },
    ...{ opened: ms / 1000, batch: 1, single: [], all: [], cosine: 0 },
    embed: async (given) => {
      const { rows } = await ask({ texts: given, batch: engine.batch });
      return Float32Array.from(rows.flatMap((/** @type {Float32Array} */ row) => [...row]));
    },
    close: () => worker.terminate(),
  };
  return engine;
}

// ---- measuring --------------------------------------------------------------------------------------

/** Warms an engine, and finds the size of batches that is best for it. @param {Engine} engine */
async function warm(engine) {
  await engine.embed(texts);
  if (engine.batch === 0) return;
  const times = [];
  for (const batch of BATCHES) {
    engine.batch = batch;
    await engine.embed(texts);
    times.push(await timed(() => engine.embed(texts)));
  }
  engine.batch = BATCHES[times.indexOf(Math.min(...times))];
}

/** The mean cosine of the rows of two engines. @param {Float32Array} a @param {Float32Array} b */
function cosineOf(a, b) {
  if (a.length !== b.length) return NaN;
  const dot = (/** @type {Float32Array} */ x, /** @type {Float32Array} */ y) =>
    x.reduce((sum, value, i) => sum + value * y[i], 0);
  const size = a.length / texts.length;
  const each = texts.map((_, i) => {
    const [x, y] = [a, b].map((rows) => rows.subarray(i * size, (i + 1) * size));
    return dot(x, y) / Math.sqrt(dot(x, x) * dot(y, y));
  });
  return each.reduce((sum, value) => sum + value, 0) / texts.length;
}

/** @param {Engine[]} engines */
async function measure(engines) {
  for (let round = 0; round < ROUNDS; round++) {
    say(`Round ${round + 1} of ${ROUNDS}`);
    for (const engine of engines) {
      const { batch } = engine;
      const given = Array.from({ length: SINGLE }, (_, i) => texts[(round * SINGLE + i) % texts.length]); // prettier-ignore
      const single = await timed(async () => {
        for (const text of given) await engine.embed([text]);
      });
      engine.single.push(single / SINGLE);
      engine.batch = batch;
      engine.all.push((await timed(() => engine.embed(texts))) / texts.length);
    }
    show(engines);
  }
}

/** @param {boolean} withOthers */
async function compare(withOthers) {
  start.disabled = alone.disabled = true;
  at('failure').hidden = true;
  delete document.documentElement.dataset.compared;
  const engines = /** @type {Engine[]} */ ([]);
  try {
    say('Loading wisp');
    engines.push(await openWisp());
    const threads = crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
    /** @type {[string, string][]} */
    const wanted = [];
    if (withOthers) wanted.push(['q8', 'wasm']);
    if (withOthers && isChosen('fp32')) wanted.push(['fp32', 'wasm']);
    if (withOthers && isChosen('webgpu')) wanted.push(['fp32', 'webgpu']);
    for (const [dtype, device] of wanted) {
      say(`Loading transformers.js with ${dtype} weights`);
      engines.push(await openTransformers(dtype, device, threads));
    }
    /** @type {Float32Array | undefined} */
    let own;
    for (const engine of engines) {
      say(`Warming ${engine.name}`);
      await warm(engine);
      const rows = await engine.embed(texts);
      own ??= rows;
      engine.cosine = cosineOf(own, rows);
    }
    await measure(engines);
    say('');
    document.documentElement.dataset.compared = engines.map(({ name }) => name).join();
  } catch (error) {
    showFailure('The comparison ended', error);
    say('');
  } finally {
    for (const { close } of engines) close();
    start.disabled = alone.disabled = false;
  }
}

// ---- drawing ----------------------------------------------------------------------------------------

/** @param {string} title @param {Engine[]} engines @param {(engine: Engine) => number} value @param {(value: number) => string} text */
function chartOf(title, engines, value, text) {
  const figure = document.createElement('figure');
  const caption = document.createElement('figcaption');
  caption.textContent = title;
  const most = Math.max(...engines.map(value));
  figure.append(
    caption,
    ...engines.map((engine) => {
      const bar = document.createElement('div');
      const name = document.createElement('span');
      const output = document.createElement('output');
      bar.className = engine.name === 'wisp' ? 'bar wisp' : 'bar';
      bar.style.setProperty('--share', String(value(engine) / most));
      name.textContent = engine.name;
      output.textContent = text(value(engine));
      bar.append(name, output);
      return bar;
    }),
  );
  return figure;
}

/** @param {Engine[]} engines */
function show(engines) {
  at('charts').replaceChildren(
    chartOf('One text after the other', engines, ({ single }) => median(single), milliseconds),
    chartOf(`All ${texts.length} texts, for each`, engines, ({ all }) => median(all), milliseconds),
  );
  at('table').hidden = false;
  at('table')
    .querySelector('tbody')
    ?.replaceChildren(
      ...engines.map(({ name, opened, single, all, batch, cosine }) => {
        const row = document.createElement('tr');
        const head = document.createElement('th');
        head.scope = 'row';
        head.textContent = name;
        const values = [
          `${opened.toFixed(2)} s`,
          milliseconds(median(single)),
          milliseconds(median(all)),
          batch === 0 ? 'all' : String(batch),
          cosine.toFixed(3),
        ];
        row.append(
          head,
          ...values.map((value) => {
            const cell = document.createElement('td');
            cell.textContent = value;
            return cell;
          }),
        );
        return row;
      }),
    );
}

at('texts-count').textContent = String(texts.length);
at('rounds-count').textContent = String(ROUNDS);
at('what').textContent =
  LIBRARY.origin === location.origin
    ? 'transformers.js comes from this server.'
    : `transformers.js comes from ${LIBRARY.host}, and its model from huggingface.co, when you press the button: about ${FETCHED.library + FETCHED.q8} MB, and ${FETCHED.fp32} more without quantisation. Both servers see your address, and none of your texts.`;
at('run').addEventListener('submit', (event) => {
  event.preventDefault();
  void compare(true);
});
alone.addEventListener('click', () => void compare(false));
document.documentElement.dataset.ready = '';
await keepForLater();
