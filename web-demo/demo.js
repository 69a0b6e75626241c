// SPDX-License-Identifier: Apache-2.0
// Runs the page: embeds its lines and a query with the package, and shows the lines nearest to it.
import { Embedder } from '../js/browser.js';
import { Lines } from './lines.js';

/** The page first shows this many results; each "Show more" doubles them. */
const SHOWN = 10;

/** The page embeds the lines when they have not changed for this long. */
const REST_MS = 250;

/**
 * @template {HTMLElement} T
 * @param {string} id
 */
const at = (id) => /** @type {T} */ (document.getElementById(id));

const query = /** @type {HTMLInputElement} */ (at('query'));
const area = /** @type {HTMLTextAreaElement} */ (at('lines'));
const progress = /** @type {HTMLProgressElement} */ (at('progress'));
const file = /** @type {HTMLInputElement} */ (at('file'));

const lines = new Lines();
/** @type {Embedder | undefined} */
let embedder;
let searching = new AbortController();
let reading = new AbortController();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let resting;
let shown = SHOWN;

const megabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
const milliseconds = (/** @type {number} */ ms) => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
const count = (/** @type {number} */ n, /** @type {string} */ what) =>
  `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

// ---- loading --------------------------------------------------------------------------------------

async function load() {
  at('failure').hidden = true;
  at('loading').hidden = false;
  try {
    embedder = await Embedder.load(undefined, { onProgress: showProgress });
  } catch (error) {
    showFailure('The model could not be loaded', error);
    return;
  } finally {
    at('loading').hidden = true;
  }
  document.documentElement.dataset.ready = '';
  showFacts();
  showHow();
  await readLines();
}

/** @param {import('../types/index.js').LoadProgress} progress */
function showProgress({ phase, loaded, total }) {
  if (total) progress.value = loaded / total;
  else progress.removeAttribute('value');
  const of = total === undefined ? '' : ` of ${phase === 'model' ? megabytes(total) : total}`;
  at('loading-text').textContent =
    phase === 'model'
      ? `Loading the model: ${megabytes(loaded)}${of}`
      : `Starting workers: ${loaded}${of}`;
}

/** @param {string} what @param {any} error */
function showFailure(what, error) {
  at('failure').hidden = false;
  at('failure-text').textContent = `${what} (${error.code ?? error.name}): ${error.message}`;
}

// ---- lines ----------------------------------------------------------------------------------------

/** Embeds the lines that are new, then searches again. */
async function readLines() {
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  lines.replace(area.value);
  const { missing } = lines;
  if (!embedder) return;
  if (missing.length > 0) {
    const start = performance.now();
    const onProgress = (/** @type {{ done: number }} */ { done }) =>
      (at('lines-status').textContent = `Reading ${done} of ${count(missing.length, 'new line')}`);
    try {
      lines.add(missing, await embedder.embed(missing, { signal, onProgress }));
    } catch (error) {
      if (!signal.aborted) showFailure('The lines could not be read', error);
      return;
    }
    const each = (performance.now() - start) / missing.length;
    at('fact-time').textContent = `${milliseconds(each)} (${count(missing.length, 'line')})`;
  }
  at('lines-status').textContent = count(lines.texts.length, 'different line');
  showFacts();
  await search();
}

function readLinesSoon() {
  clearTimeout(resting);
  resting = setTimeout(readLines, REST_MS);
}

// ---- searching ------------------------------------------------------------------------------------

/** Shows the lines nearest to the query; a newer search ends an older one. */
async function search() {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  const text = query.value.trim();
  if (!embedder) return;
  if (text === '') {
    showResults(lines.texts.slice(0, shown).map((line) => ({ text: line })));
    at('status').textContent = count(lines.texts.length, 'line');
    return;
  }
  try {
    const start = performance.now();
    const rows = await embedder.embed(text, { signal });
    at('fact-query').textContent = milliseconds(performance.now() - start);
    const found = lines.nearest(rows.row(0), shown);
    showResults(found);
    at('status').textContent =
      found.length === 0
        ? 'No lines to search'
        : `The nearest of ${count(lines.texts.length, 'line')}`;
    at('failure').hidden = true;
    showFacts();
  } catch (error) {
    if (!signal.aborted) showFailure('The search failed', error);
  }
}

/** @param {{ text: string, score?: number }[]} found */
function showResults(found) {
  document.documentElement.dataset.searched = query.value.trim();
  at('more').hidden = found.length >= lines.texts.length;
  at('results').replaceChildren(
    ...found.map(({ text, score }) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.title = 'Search for lines like this one';
      button.append(span('text', text));
      if (score !== undefined) {
        button.append(span('score', score.toFixed(2)));
        button.style.setProperty('--near', Math.max(score, 0).toFixed(3));
      }
      button.addEventListener('click', () => ask(text));
      const item = document.createElement('li');
      item.append(button);
      return item;
    }),
  );
}

/** @param {string} name @param {string} text */
function span(name, text) {
  const element = document.createElement('span');
  element.className = name;
  element.textContent = text;
  return element;
}

function searchAnew() {
  shown = SHOWN;
  void search();
}

/** @param {string} text */
function ask(text) {
  query.value = text;
  query.focus();
  searchAnew();
}

/** Shows more results and moves the focus to the first new one, for users of a keyboard. */
async function showMore() {
  const first = shown;
  shown *= 2;
  await search();
  /** @type {HTMLElement | null} */ (
    document.querySelector(`#results li:nth-child(${first + 1}) button`)
  )?.focus();
}

// ---- facts ----------------------------------------------------------------------------------------

function showFacts() {
  if (!embedder) return;
  const info = embedder.info();
  const { memoryBytes, workers } = embedder.stats();
  at('fact-workers').textContent = `${workers}`;
  at('fact-memory').textContent = `${megabytes(memoryBytes)} in workers`;
  at('fact-model').textContent =
    `${info.name}, ${megabytes(info.modelBytes)}, ${info.compute}, ${info.dimensions} dimensions`;
}

function showHow() {
  if (!embedder) return;
  const { build, kernels, reasons, workers, sharedMemory } = embedder.info();
  const facts = [
    ['Module', `${build}: ${reasons.build}`],
    ['Kernels', kernels],
    ['Workers', `${workers}: ${reasons.workers}`],
    ['Memory', `${sharedMemory ? 'shared' : 'not shared'}: ${reasons.memory}`],
  ];
  at('how').replaceChildren(
    ...facts.flatMap(([name, value]) => {
      const term = document.createElement('dt');
      term.textContent = name;
      const description = document.createElement('dd');
      description.textContent = value;
      return [term, description];
    }),
  );
}

// ---- the page's controls --------------------------------------------------------------------------

async function useSample() {
  const response = await fetch(new URL('./sample.txt', import.meta.url));
  useText((await response.text()).trimEnd());
}

/** @param {string} text */
function useText(text) {
  area.value = text;
  void readLines();
}

area.addEventListener('input', readLinesSoon);
query.addEventListener('input', searchAnew);
at('search').addEventListener('submit', (event) => {
  event.preventDefault();
  searchAnew();
});
at('more').addEventListener('click', showMore);
at('search').addEventListener('click', ({ target }) => {
  const text = target instanceof HTMLElement && target.dataset.query;
  if (text) ask(text);
});
at('sample').addEventListener('click', useSample);
at('clear').addEventListener('click', () => useText(''));
at('open').addEventListener('click', () => file.click());
file.addEventListener('change', async () => {
  const chosen = file.files?.[0];
  if (chosen) useText(await chosen.text());
  file.value = '';
});
at('retry').addEventListener('click', load);
document.addEventListener('keydown', (event) => {
  const typing = event.target instanceof HTMLElement && event.target.matches('input, textarea');
  if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  query.focus();
});

await Promise.all([useSample(), load()]);
