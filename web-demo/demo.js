// SPDX-License-Identifier: Apache-2.0
// Runs the page: embeds its lines and a query with the package, and shows the lines nearest to it.
import { Embedder } from '../js/browser.js';
import { Lines } from './lines.js';
import { at, count, countRequests, keepForLater, megabytes, showFailure } from './page.js';

/** The page first shows this many results; each "Show more" doubles them. */
const SHOWN = 10;

/** The page embeds the lines when they have not changed for this long. */
const REST_MS = 250;

/** So many lines are embedded at once. What has been read stays, and later changes of the text go first. */
const BATCH = 128;

/** Where the browser keeps the lines. */
const KEPT = 'wisp-lines';

const query = /** @type {HTMLInputElement} */ (at('query'));
const area = /** @type {HTMLTextAreaElement} */ (at('lines'));
const progress = /** @type {HTMLProgressElement} */ (at('progress'));
const file = /** @type {HTMLInputElement} */ (at('file'));

const lines = new Lines();
/** @type {Embedder | undefined} */
let embedder;
let searching = new AbortController();
let isReading = false;
/** The sample, for which nothing needs to be kept. */
let sample = '';
/** The text before Sample, Clear, Open or Undo. @type {string | undefined} */
let before;
/** The query that results are shown for. @type {{ text: string, row: Float32Array } | undefined} */
let asked;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let resting;
let shown = SHOWN;
/** The idea that a first visit begins with. */
let example = '';

const milliseconds = (/** @type {number} */ ms) => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;

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
  await Promise.all([search(), readLines()]);
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

// ---- lines ----------------------------------------------------------------------------------------

/** Embeds the lines that have no embedding, a batch at a time, and shows the nearest of those that have one. */
async function readLines() {
  lines.replace(area.value);
  keepText();
  showResults();
  if (!embedder || isReading) return; // the loop below sees the change after its batch
  isReading = true;
  const start = performance.now();
  let read = 0;
  try {
    for (let { missing } = lines; missing.length > 0; { missing } = lines) {
      const batch = missing.slice(0, BATCH);
      lines.add(batch, await embedder.embed(batch));
      read += batch.length;
      showResults();
    }
  } catch (error) {
    showFailure('The lines could not be read', error);
  } finally {
    isReading = false;
  }
  if (read > 0) {
    const each = (performance.now() - start) / read;
    at('fact-time').textContent = `${milliseconds(each)} (${count(read, 'line')})`;
    at('number-time').textContent = milliseconds(each);
  }
  showResults();
  showFacts();
}

/** Keeps the lines for the next visit. */
function keepText() {
  const isSample = area.value === sample;
  at('searched-text').textContent = isSample
    ? 'These lines are a sample.'
    : 'These lines are yours.';
  at('own').textContent = isSample ? 'Search your own text' : 'Change them';
  try {
    if (isSample) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, area.value);
    at('kept').hidden = true;
  } catch {
    at('kept').hidden = isSample; // no room, or no permission
  }
}

/** Returns the lines of the last visit. */
function keptText() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null; // without permission
  }
}

function readLinesSoon() {
  clearTimeout(resting);
  resting = setTimeout(readLines, REST_MS);
}

// ---- searching ------------------------------------------------------------------------------------

/** Finds the lines nearest to the query; a newer search ends an older one. */
async function search() {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  const text = query.value.trim();
  showQueryInAddress(text);
  if (embedder && text !== '' && asked?.text !== text) {
    try {
      const start = performance.now();
      const rows = await embedder.embed(text, { signal });
      at('fact-query').textContent = milliseconds(performance.now() - start);
      asked = { text, row: rows.row(0) };
      at('failure').hidden = true;
      showFacts();
    } catch (error) {
      if (!signal.aborted) showFailure('The search failed', error);
      return;
    }
  }
  showResults();
}

/** Makes the page's address one that asks the same. */
function showQueryInAddress(/** @type {string} */ text) {
  const url = new URL(location.href);
  if (text === '' || text === example) url.searchParams.delete('q');
  else url.searchParams.set('q', text);
  try {
    if (url.href !== location.href) history.replaceState(null, '', url);
  } catch {
    // some browsers allow so many changes in a time; a later one has the whole text
  }
}

/** Shows what is known now: lines as they stand, or those that have been read, the nearest first. */
function showResults() {
  const text = query.value.trim();
  const all = lines.texts.length;
  const read = all - lines.missing.length;
  const counted =
    all === lines.count
      ? count(all, 'different line')
      : `${count(all, 'passage')} of ${count(lines.count, 'different line')}`;
  if (!embedder) at('lines-status').textContent = count(all, 'line');
  else if (read === all) at('lines-status').textContent = counted;
  else
    at('lines-status').textContent =
      `Reading ${read.toLocaleString('en')} of ${count(all, 'line')}`;
  if (text === '') {
    document.documentElement.dataset.searched = '';
    showFound([]); // the lines themselves stand beside
    at('status').textContent = all === 0 ? 'No lines to search' : `${count(all, 'line')} to search`;
    return;
  }
  if (asked?.text !== text) {
    if (!embedder) at('status').textContent = 'The search begins when the model is loaded';
    return; // the results of the last query stay until those of this one are there
  }
  showFound(lines.nearest(asked.row, shown));
  document.documentElement.dataset.searched = text;
  if (all === 0) at('status').textContent = 'No lines to search';
  else if (read === all) at('status').textContent = `The nearest of ${count(all, 'line')}`;
  else if (read === 0) at('status').textContent = 'The lines are being read';
  else at('status').textContent = `The nearest of the ${count(read, 'line')} read so far`;
}

/** @param {{ text: string, score: number }[]} found */
function showFound(found) {
  const focused = [...at('results').children].findIndex((item) =>
    item.contains(document.activeElement),
  );
  at('more').hidden = found.length === 0 || found.length >= lines.texts.length;
  at('results').replaceChildren(
    ...found.map(({ text, score }) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.title = 'Search for lines like this one';
      button.append(span('text', text), span('score', score.toFixed(2)));
      button.style.setProperty('--near', Math.max(score, 0).toFixed(3));
      button.addEventListener('click', () => ask(text));
      const item = document.createElement('li');
      item.append(button);
      return item;
    }),
  );
  // Else users of a keyboard lose their place whenever more lines have been read.
  if (focused >= 0) resultButton(focused)?.focus();
}

/**
 * @param {number} i
 * @returns {HTMLElement | null}
 */
const resultButton = (i) => document.querySelector(`#results li:nth-child(${i + 1}) button`);

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
  resultButton(first)?.focus();
}

// ---- facts ----------------------------------------------------------------------------------------

function showFacts() {
  if (!embedder) return;
  const info = embedder.info();
  const { memoryBytes, workers, layers } = embedder.stats();
  const sum = (/** @type {'neurons' | 'contributing'} */ name) =>
    layers.reduce((total, layer) => total + layer[name], 0);
  const resting = Math.round(100 * (1 - sum('contributing') / sum('neurons')));
  if (resting > 0) {
    at('neurons').textContent =
      `For the texts that this page has read, ${resting} % of the neurons would have added nothing.`;
    at('number-rest').textContent = `${resting} %`;
  }
  at('number-model').textContent = megabytes(info.modelBytes);
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

async function readSample() {
  const response = await fetch(new URL('./sample.txt', import.meta.url));
  sample = (await response.text()).trimEnd();
}

/**
 * Replaces the lines; Undo brings back those before.
 * @param {string} text
 */
function useText(text) {
  if (text === area.value) return;
  before = area.value;
  at('undo').hidden = false;
  area.value = text;
  void readLines();
}

/** Begins with the lines of the last visit and the query of the address. */
async function begin() {
  query.value = new URL(location.href).searchParams.get('q') ?? '';
  const kept = keptText();
  if (kept !== null) area.value = kept;
  await readSample();
  if (kept === null && area.value === '') area.value = sample;
  if (query.value === '' && area.value === sample) {
    example = /** @type {HTMLElement} */ (document.querySelector('[data-query]')).dataset.query ?? ''; // prettier-ignore
    query.value = example;
  }
  await Promise.all([search(), readLines()]);
}

area.addEventListener('input', readLinesSoon);
query.addEventListener('input', searchAnew);
query.addEventListener('focus', () => {
  if (query.value === example) query.select(); // so that what is typed takes its place
});
at('search').addEventListener('submit', (event) => {
  event.preventDefault();
  searchAnew();
});
at('more').addEventListener('click', showMore);
at('search').addEventListener('click', ({ target }) => {
  const text = target instanceof HTMLElement && target.dataset.query;
  if (text) ask(text);
});
at('sample').addEventListener('click', () => useText(sample));
at('clear').addEventListener('click', () => useText(''));
at('undo').addEventListener('click', () => useText(before ?? ''));
at('own').addEventListener('click', () => {
  area.focus();
  if (area.value === sample) area.select(); // so that what is pasted takes its place
  area.scrollIntoView({ block: 'center' });
});
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

await Promise.all([begin(), load()]);
await keepForLater();
countRequests((requests) => (at('number-requests').textContent = `${requests}`));
