// SPDX-License-Identifier: Apache-2.0
// Runs the page that draws neurons: opens a model by range, embeds what is typed, and shows what came for it.
import { Embedder } from '../js/browser.js';
import { NEURON } from '../js/cold-browser.js';
import { Line } from './line.js';
import { at, count, keepForLater, megabytes, showFailure } from './page.js';
import { applyPatch, decompress } from './patch.js';
import { coloursOf, drawFile, drawLayer } from './picture.js';
import { serveBlob } from './served-here.js';
import { Tokens } from './tokens.js';

/** A model of "serve-demo --cold"; without one the page makes its own. */
const given = new URL(location.href).searchParams.get('model');
const MODEL = new URL(given ?? '../models/made-here.gguf', import.meta.url).href;
const PLAIN = new URL('../models/wisp-default.gguf', import.meta.url);
const PATCH = new URL('./calibrated.patch.gz', import.meta.url);

/** Tokens of a text whose neurons the page can show one by one. */
const MOST_TOKENS = 64;

/** The page embeds what is typed when that has not changed for this long. */
const REST_MS = 200;

/** The lines that a text is compared with. */
const LINES = [
  'A kitten naps on the warm windowsill.',
  'Plants make sugar from sunlight.',
  'She still owes the bank for her house.',
  'The train was late because of snow.',
];

const query = /** @type {HTMLInputElement} */ (at('query'));
const speed = /** @type {HTMLSelectElement} */ (at('speed'));
const modes = /** @type {HTMLFieldSetElement} */ (at('modes'));

const seconds = (/** @type {number} */ ms) =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

// ---- the line ---------------------------------------------------------------------------------------

// Only the model comes over the slow line. The page's own files are small.
const direct = globalThis.fetch.bind(globalThis);
/** What answers requests for the model: its server, or the page. */
let server = /** @type {typeof globalThis.fetch} */ (direct);
const line = new Line((...request) => server(...request));
/** Bytes of the model's file, when its server has said so. */
let fileBytes = 0;
globalThis.fetch = async (...request) => {
  if (String(request[0]) !== MODEL) return direct(...request);
  const response = await line.fetch(...request);
  const [, size] = /\/(\d+)$/.exec(response.headers.get('content-range') ?? '') ?? [];
  fileBytes = Number(size ?? fileBytes);
  return response;
};

function chooseSpeed() {
  const [megabits = '', delay = '0'] = speed.value.split(',');
  line.speed = megabits === '' ? Infinity : Number(megabits) * 1e6;
  line.delay = Number(delay);
}

// ---- the model --------------------------------------------------------------------------------------

/** @type {Embedder | undefined} */
let embedder;
/** Ends the loading of a model that is wanted no more. */
let loading = new AbortController();
/** How far that has come. @type {import('../types/index.js').LoadProgress | undefined} */
let progress;
/** Embeddings of the lines by this model. @type {Float32Array[] | undefined} */
let lineRows;
/** The neurons that the text used, by layer, while others are drawn at work on the lines. @type {Uint8Array[] | undefined} */
let used;
/** The text that the page shows results of. */
let shown = /** @type {string | undefined} */ ('');
/** Whether the last text could not be read. */
let failed = false;
let isReading = false;
/** Values with all neurons, by text. @type {Map<string, number[]>} */
const exact = new Map();

/** Makes the model of the plain one, unless that is done or a server has another. */
async function makeModel() {
  if (given !== null || server !== direct) return;
  say('Making the model of the one that comes with wisp.');
  const [plain, patch] = await Promise.all([PLAIN, PATCH].map(fetchBlob));
  const bytes = applyPatch(new Uint8Array(await plain.arrayBuffer()), await decompress(patch));
  server = serveBlob(new Blob([bytes]));
  at('made-here').hidden = false;
  at('patch-bytes').textContent = megabytes(patch.size);
}

/** @param {URL} url @returns {Promise<Blob>} */
async function fetchBlob(url) {
  const response = await direct(url);
  if (!response.ok) throw new Error(`${url.href}: status ${response.status}`);
  return response.blob();
}

const modeOf = () => /** @type {HTMLInputElement} */ (modes.querySelector('input:checked')).value;

/** Opens the model with nothing fetched, in the way that is chosen. */
async function start() {
  loading.abort();
  loading = new AbortController();
  const { signal } = loading;
  const old = embedder;
  embedder = progress = lineRows = used = undefined;
  tokens.clear();
  shown = '';
  delete document.documentElement.dataset.ready;
  delete document.documentElement.dataset.read;
  at('failure').hidden = at('picture').hidden = at('places').hidden = true;
  at('soon').hidden = false;
  showNear();
  const mode = modeOf();
  try {
    await Promise.all([old?.destroy(), makeModel()]);
    if (signal.aborted) return;
    const loaded = await Embedder.load(MODEL, {
      workers: 1,
      signal,
      ...(isShareChosen && { sparsity: shareOf() }),
      onProgress(now) {
        if (now.phase === 'model') progress = now;
        drawSoon();
      },
      cold: {
        mode: mode === 'skip' ? 'skip' : 'wait',
        complete: mode === 'rest',
        store: false, // each visit shows how the model comes
        onChange: drawSoon,
        tokens: MOST_TOKENS,
      },
    });
    if (signal.aborted) return void (await loaded.destroy());
    embedder = loaded;
  } catch (error) {
    progress = undefined;
    if (!signal.aborted) fail('The model could not be opened', error);
    return;
  }
  const info = embedder.info();
  const { layers = [], mode: opened, neurons, hotBytes } = coldOf(embedder);
  at('fact-model').textContent = `${info.name}, ${megabytes(info.modelBytes)}, ${info.compute}`;
  at('soon').hidden = true;
  at('picture').hidden = at('places').hidden = layers.length === 0;
  if (opened === 'all') {
    say(`The whole file was fetched, so there is nothing to draw: ${info.reasons.cold}.`);
  } else {
    at('neurons-count').textContent = neurons.toLocaleString('en');
    say(`The model is open: ${megabytes(hotBytes)} were enough. Now type.`);
  }
  makeLayers(layers.length);
  if (!isShareChosen && info.sparsity > 0) {
    sparsity.value = (100 * info.sparsity).toFixed(0);
    at('sparsity-text').textContent = `${sparsity.value} %`;
  }
  const firstCold = Math.min(...layers.map(({ coldOffset }) => coldOffset || info.modelBytes));
  const parts = [hotBytes, firstCold - hotBytes, info.modelBytes - firstCold];
  at('places').style.gridTemplateColumns = parts.map((bytes) => `${bytes}fr`).join(' ');
  at('places-layers').textContent = `layers 1–${layers.length}`;
  document.documentElement.dataset.ready = '';
  drawSoon();
  await read();
}

/** @param {Embedder} from */
const coldOf = (from) => {
  const stats = /** @type {import('../types/index.js').EmbedderStats} */ (from.stats());
  return /** @type {import('../types/index.js').ColdTotals} */ (stats.cold);
};

/** @param {string} text */
function say(text) {
  if (at('status').textContent !== text) at('status').textContent = text;
}

/** Shows what failed instead of the picture, and help if there is no model. @param {string} what @param {any} error */
function fail(what, error) {
  showFailure(what, error);
  at('failure-help').hidden = error.status !== 404;
  at('file').hidden = at('soon').hidden = true;
  say('');
}

// ---- reading ----------------------------------------------------------------------------------------

/** Embeds what is typed, and the newest text after that: what has been asked for is not thrown away. */
async function read() {
  if (isReading) return;
  isReading = true;
  try {
    failed = false;
    while (!failed && embedder && query.value.trim() !== shown)
      await readText(embedder, query.value.trim());
  } finally {
    if (failed) shown = undefined; // typing or Enter tries again
    isReading = false;
  }
}

/**
 * @param {Embedder} from
 * @param {string} text
 */
async function readText(from, text) {
  shown = text;
  if (text === '') {
    showNear();
    return;
  }
  const before = coldOf(from);
  const start = performance.now();
  used = undefined;
  say('');
  document.documentElement.dataset.reading = text;
  try {
    const rows = /** @type {import('../types/index.js').Rows} */ (await from.embed(text));
    const took = performance.now() - start;
    if (from !== embedder) return;
    const after = coldOf(from);
    used = after.layers?.map(({ states }) => states);
    if (after.layers) await tokens.show(from, text, after.layers);
    if (from !== embedder) return;
    at('fact-time').textContent = seconds(took);
    at('failure').hidden = true;
    say(sentenceOf(before, after, rows.skipped ?? 0));
    lineRows ??= [...(await from.embed(LINES))];
    if (from !== embedder) return;
    showNear(text, rows.row(0), lineRows);
    void measure(from, text, rows.row(0));
  } catch (error) {
    if (from !== embedder) return;
    fail('Your text could not be read', error);
    failed = true;
  } finally {
    delete document.documentElement.dataset.reading;
    document.documentElement.dataset.read = text;
    drawSoon();
  }
}

/**
 * @param {import('../types/index.js').ColdTotals} before
 * @param {import('../types/index.js').ColdTotals} after
 * @param {number} skipped
 */
function sentenceOf(before, after, skipped) {
  const { layers = [] } = after;
  const needed = layers.reduce((sum, { states }) => sum + countOf(states, NEURON.needed), 0);
  const bytes = after.fetchedBytes - before.fetchedBytes;
  const requests = after.requests - before.requests;
  const uses = `Your text uses ${count(needed, 'neuron')}.`;
  if (skipped > 0) {
    const left = layers.reduce((sum, { states }) => sum + countOf(states, NEURON.skipped), 0);
    return `${uses} ${left.toLocaleString('en')} of them are not here and were left out.`;
  }
  if (bytes === 0) return `${uses} All of them were here: nothing was fetched.`;
  return `${uses} ${megabytes(bytes)} were fetched for it, in ${count(requests, 'request')}.`;
}

/** @param {Uint8Array} states @param {number} flag */
const countOf = (states, flag) => states.reduce((sum, state) => sum + (state & flag ? 1 : 0), 0);

/**
 * Shows how near a text is to the lines, and with all neurons, if that is known.
 * @param {string} [text]
 * @param {Float32Array} [row]
 * @param {Float32Array[]} [lines]
 */
function showNear(text, row, lines) {
  const values = row && lines?.map((each) => each.reduce((sum, x, i) => sum + x * row[i], 0));
  if (text && values && modeOf() !== 'skip') exact.set(text, values);
  const known = modeOf() === 'skip' && text ? exact.get(text) : undefined;
  at('mark').hidden = !known;
  [...at('near').children].forEach((item, i) => {
    const { style, dataset } = /** @type {HTMLElement} */ (item);
    const output = /** @type {HTMLOutputElement} */ (item.lastElementChild);
    output.textContent = values ? values[i].toFixed(3) : '–';
    if (known) output.textContent += ` (${known[i].toFixed(3)})`;
    style.setProperty('--near', String(Math.max(values?.[i] ?? 0, 0)));
    style.setProperty('--exact', String(Math.max(known?.[i] ?? 0, 0)));
    if (known) dataset.exact = '';
    else delete dataset.exact;
  });
  at('same').textContent = row
    ? `The result is ${row.length} numbers. Their fingerprint is ${fingerprint(row)}: the same text has the same, unless neurons are left out.`
    : 'The result of a text is some hundred numbers. Here you will see their fingerprint.';
}

/** @param {Float32Array} row @returns {string} eight digits that depend on every bit of it (FNV-1a) */
function fingerprint(row) {
  let hash = 0x811c9dc5;
  for (const byte of new Uint8Array(row.buffer, row.byteOffset, row.byteLength)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, '0');
}

// ---- sparsity ---------------------------------------------------------------------------------------

/** Each time is the median of so many. */
const RUNS = 7;

const sparsity = /** @type {HTMLInputElement} */ (at('sparsity'));
const shareOf = () => Number(sparsity.value) / 100;
/** Else the model's own is taken. */
let isShareChosen = false;

/** The same model with all neurons, once it was needed. @type {Promise<Embedder> | undefined} */
let dense;
const openDense = async () => {
  const file = await (await server(MODEL)).blob();
  return Embedder.load(file, { workers: 1, threads: 1, predictor: 'dense' });
};
/** Counts measurements: a newer one ends an older one. */
let measuring = 0;

/**
 * Compares the embedding of a text with that of all neurons, and both in time.
 * @param {Embedder} from
 * @param {string} text
 * @param {Float32Array} row
 */
async function measure(from, text, row) {
  const own = ++measuring;
  const whole = await (dense ??= openDense());
  const all = (await whole.embed(text)).row(0);
  const cosine = all.reduce((sum, x, i) => sum + x * row[i], 0);
  const times = /** @type {[number[], number[]]} */ ([[], []]);
  for (let run = 0; run < RUNS; run++) {
    for (const [i, each] of [from, whole].entries()) {
      if (own !== measuring || from !== embedder) return;
      const start = performance.now();
      await each.embed(text);
      times[i].push(performance.now() - start);
    }
  }
  const [few, most] = times.map((all) => `${all.sort((a, b) => a - b)[RUNS >> 1].toFixed(1)} ms`);
  if (own !== measuring) return;
  at('quality').textContent = cosine.toFixed(4);
  at('time-sparse').textContent = few;
  at('time-dense').textContent = most;
  document.documentElement.dataset.measured = `${text} ${sparsity.value}`;
}

/** Has the text read again with the share of neurons that is chosen. */
async function chooseSparsity() {
  at('sparsity-text').textContent = `${sparsity.value} %`;
  isShareChosen = true;
  if (!embedder) return;
  await embedder.setSparse({ sparsity: shareOf() });
  shown = undefined;
  await read();
}

// ---- drawing ----------------------------------------------------------------------------------------

const tokens = new Tokens(at('tokens'), drawSoon);

let willDraw = false;

/** Draws in the next frame, once for all changes until then. */
function drawSoon() {
  if (willDraw) return;
  willDraw = true;
  requestAnimationFrame(() => {
    willDraw = false;
    if (embedder) draw(embedder);
    else if (progress) drawProgress(progress);
  });
}

/** @param {import('../types/index.js').LoadProgress} progress */
function drawProgress({ loaded, total }) {
  const of = total === undefined ? '' : ` of ${megabytes(total)}`;
  at('file').hidden = false;
  at('file-text').textContent = `Opening the model: ${megabytes(loaded)}${of}`;
  at('file-more').textContent = '(the part of the file that is used most often)';
  const size = Math.max(fileBytes, total ?? 1);
  const file = { size, hot: size, absent: /** @type {[number, number][]} */ ([[loaded, size]]) };
  drawFile(at('file-canvas'), { ...file, coming: [] }, coloursOf(document.documentElement));
}

/** @param {Embedder} from */
function draw(from) {
  const cold = coldOf(from);
  const colours = coloursOf(document.documentElement);
  const { fileBytes: size, hotBytes, presentBytes, absent = [], coming = [] } = cold;
  const share = Math.floor((100 * presentBytes) / size);
  at('file').hidden = false;
  at('file-text').textContent =
    `${megabytes(presentBytes)} of ${megabytes(size)} are here: ${share} % of the file`;
  at('file-more').textContent =
    cold.mode === 'all' ? '' : `(it opened from ${megabytes(hotBytes)})`;
  drawFile(at('file-canvas'), { size, hot: hotBytes, absent, coming }, colours);
  at('fact-requests').textContent = cold.requests.toLocaleString('en');
  at('fact-bytes').textContent = megabytes(cold.fetchedBytes);
  at('fact-words').textContent = cold.warmTokens.toLocaleString('en');
  if ('reading' in document.documentElement.dataset && !used) sayWhere(cold);
  (cold.layers ?? []).forEach((layer, i) => {
    // After a text, lines are read that are none of the user's: the picture stays the text's.
    const own = used?.[i];
    const states = own
      ? layer.states.map(
          (state, place) =>
            (state & (NEURON.here | NEURON.coming)) |
            (own[place] & (NEURON.needed | NEURON.skipped)),
        )
      : layer.states;
    const item = at('layers').children[i];
    const [all, one] = item.querySelectorAll('canvas');
    drawLayer(all, { ...layer, states }, colours);
    drawLayer(one, { ...layer, states: tokens.statesOf(i, states) }, colours);
    const text = /** @type {HTMLElement} */ (item.querySelector('span'));
    const said = describe({ ...layer, states });
    if (text.textContent !== said) text.textContent = said;
  });
}

/**
 * Says how far the text has come that is being read.
 * @param {import('../types/index.js').ColdTotals} cold
 */
function sayWhere({ layers = [], coming = [] }) {
  if (coming.length === 0) return;
  const isReached = layers.map(({ states }) => countOf(states, NEURON.needed) > 0);
  const now = isReached.lastIndexOf(true);
  if (now < 0) say('Some of your words are rare. They are on their way.');
  else say(`Your text has come to layer ${now + 1} of ${layers.length}, and waits for neurons.`);
}

/** @param {import('../types/index.js').ColdLayer} layer @returns {string} what its picture shows */
function describe({ hot, neurons, states }) {
  const here = countOf(states, NEURON.here);
  const coming = countOf(states, NEURON.coming);
  const skipped = countOf(states, NEURON.skipped);
  const parts = [
    `${hot} from the start`,
    ...(here > hot ? [`${here - hot} fetched`] : []),
    ...(coming > 0 ? [`${coming} on their way`] : []),
    ...(neurons > here + coming ? [`${neurons - here - coming} not here`] : []),
    `${countOf(states, NEURON.needed) - skipped} used`,
    ...(skipped > 0 ? [`${skipped} left out`] : []),
  ];
  return parts.join(', ');
}

/** @param {number} layers */
function makeLayers(layers) {
  at('layers').replaceChildren(
    ...Array.from({ length: layers }, (_, i) => {
      const item = document.createElement('li');
      const text = document.createElement('p');
      const name = document.createElement('strong');
      const [canvas, one] = [document.createElement('canvas'), document.createElement('canvas')];
      const pair = document.createElement('div');
      pair.className = 'pair';
      name.textContent = `Layer ${i + 1}`;
      name.id = `layer-${i}`;
      const said = document.createElement('span');
      said.id = `layer-${i}-text`;
      text.append(name, said);
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-labelledby', `${name.id} ${said.id}`);
      one.setAttribute('role', 'img');
      one.setAttribute('aria-labelledby', `${name.id} one-title`);
      pair.append(canvas, one);
      item.append(text, pair);
      return item;
    }),
  );
}

// ---- the page's controls ------------------------------------------------------------------------------

/** @type {ReturnType<typeof setTimeout> | undefined} */
let resting;

function readSoon() {
  clearTimeout(resting);
  resting = setTimeout(read, REST_MS);
}

/** @param {string} text */
function ask(text) {
  query.value = text;
  clearTimeout(resting);
  void read();
}

at('near').append(
  ...LINES.map((text) => {
    const item = document.createElement('li');
    const span = document.createElement('span');
    span.textContent = text;
    item.append(span, document.createElement('output'));
    return item;
  }),
);
query.addEventListener('input', readSoon);
at('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  ask(query.value);
});
at('ask').addEventListener('click', ({ target }) => {
  const text = target instanceof HTMLElement && target.dataset.query;
  if (text) ask(text);
});
sparsity.addEventListener('input', chooseSparsity);
speed.addEventListener('change', chooseSpeed);
modes.addEventListener('change', start);
at('again').addEventListener('click', start);
at('retry').addEventListener('click', start);
new ResizeObserver(drawSoon).observe(document.body);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawSoon);

if (given === null) {
  const [idea] = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-query]'));
  query.value = idea.dataset.query ?? '';
}
chooseSpeed();
await start();
await keepForLater();
