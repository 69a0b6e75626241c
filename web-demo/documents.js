// SPDX-License-Identifier: Apache-2.0
// Runs the page that searches documents: divides them into passages, embeds these, keeps them, and shows the nearest.
import { Embedder } from '../js/browser.js';
import { Index } from '../js/index-browser.js';
import { chunk } from '../js/text.js';
import { isPdf, textOf, tidy } from './document-text.js';
import { at, count, keepForLater, megabytes, showFailure } from './page.js';

/** Where the browser keeps the passages and their embeddings. */
const KEPT = 'indexeddb:wisp-documents';

/** A passage has at most so many tokens, and begins with the last of the one before. */
const PASSAGE = { tokens: 96, overlap: 16 };

/** So many passages are embedded at once; between them the page can search. */
const BATCH = 32;

/** So many results are shown, and sentences are marked in. */
const SHOWN = 8;

/** What pdf.js is loaded from, when a user says so. The address of the page may name another place. */
const PDF_PLACE =
  new URL(location.href).searchParams.get('pdfjs') ??
  'https://cdn.jsdelivr.net/npm/pdfjs-dist@6.5.438/build/';

/** wisp's own documents. */
const GUIDES = ['README.md', 'docs/javascript.md', 'docs/sparse.md', 'docs/indexes.md', 'docs/glossary.md']; // prettier-ignore

/** @typedef {{ document: string, part: number, text: string }} Passage */

const query = /** @type {HTMLInputElement} */ (at('query'));
const files = /** @type {HTMLInputElement} */ (at('files'));
const progress = /** @type {HTMLProgressElement} */ (at('progress'));
const indexing = /** @type {HTMLProgressElement} */ (at('indexing'));

/** @type {Embedder} */
let embedder;
/** @type {Index} */
let index;
let searching = new AbortController();

// ---- documents --------------------------------------------------------------------------------------

/** Names of documents, and how many passages each has. @returns {Map<string, number>} */
function documentsOf() {
  const all = new Map();
  for (const id of index.ids()) {
    const { document } = /** @type {Passage} */ (index.get(id));
    all.set(document, (all.get(document) ?? 0) + 1);
  }
  return all;
}

const idOf = (/** @type {string} */ document, /** @type {number} */ part) => `${document}#${part}`;

/** @param {string} document */
function forget(document) {
  const passages = documentsOf().get(document) ?? 0;
  index.remove(Array.from({ length: passages }, (_, part) => idOf(document, part)));
}

/** Keeps the index for the next visit. */
async function keep() {
  try {
    await index.save(KEPT, { force: true });
    at('fact-kept').textContent = megabytes((await index.arrayBuffer()).byteLength);
  } catch (error) {
    at('fact-kept').textContent = 'no: they are gone when the page is closed';
    console.info(error);
  }
}

function showDocuments() {
  const all = documentsOf();
  at('documents').replaceChildren(
    ...[...all].map(([name, passages]) => {
      const item = document.createElement('li');
      const text = document.createElement('span');
      const about = document.createElement('span');
      const button = document.createElement('button');
      text.textContent = name;
      about.textContent = count(passages, 'passage');
      about.className = 'hint';
      button.type = 'button';
      button.textContent = 'Remove';
      button.setAttribute('aria-label', `Remove ${name}`);
      button.addEventListener('click', async () => {
        forget(name);
        showDocuments();
        void search();
        await keep();
      });
      item.append(text, about, button);
      return item;
    }),
  );
  at('fact-passages').textContent = index.size.toLocaleString('en');
}

/**
 * Divides a text into passages and adds them, in place of those that the document had.
 * @param {string} document
 * @param {string} text
 */
async function add(document, text) {
  const passages = await chunk(embedder, text, PASSAGE);
  forget(document);
  for (let first = 0; first < passages.length; first += BATCH) {
    const batch = passages.slice(first, first + BATCH);
    indexing.value = first / passages.length;
    at('indexing-text').textContent =
      `${document}: ${first} of ${count(passages.length, 'passage')}`;
    await index.add(
      batch.map(({ text }, i) => {
        const part = first + i;
        return { id: idOf(document, part), text, metadata: { document, part } };
      }),
    );
    void search();
  }
  return passages.length;
}

/** Files that are read, one after the other. */
let last = Promise.resolve();

/** @param {readonly { name: string, read: () => Promise<string> }[]} given */
function addAll(given) {
  last = last.then(async () => {
    at('failure').hidden = true;
    indexing.hidden = false;
    let passages = 0;
    const start = performance.now();
    for (const { name, read } of given) {
      try {
        const text = await read();
        if (text === '') throw new Error(`${name} has no text`);
        passages += await add(name, text);
      } catch (error) {
        showFailure(`${name} could not be read`, error);
      }
      showDocuments();
    }
    indexing.hidden = true;
    at('indexing-text').textContent = '';
    if (passages > 0)
      at('fact-time').textContent = `${((performance.now() - start) / passages).toFixed(1)} ms`;
    await keep();
    document.documentElement.dataset.added = given.map(({ name }) => name).join();
  });
}

// ---- PDF --------------------------------------------------------------------------------------------

/** @type {Worker | undefined} */
let reader;
/** PDF files that wait for pdf.js. @type {File[]} */
let waiting = [];

/** @param {File} file @returns {Promise<string>} */
async function textOfPdf(file) {
  const own = (reader ??= new Worker(new URL('./pdf-worker.js', import.meta.url), { type: 'module' })); // prettier-ignore
  const bytes = await file.arrayBuffer();
  return new Promise((resolve, reject) => {
    own.onmessage = ({ data: { read } }) => {
      if (!read) return; // of pdf.js itself
      if (read.error === undefined) resolve(tidy(read.text));
      else reject(new Error(read.error));
    };
    own.onerror = (event) => reject(new Error(event.message || 'pdf.js did not start'));
    own.postMessage({ place: new URL(PDF_PLACE, location.href).href, bytes }, [bytes]);
  });
}

/** @param {File[]} given */
function addPdfs(given) {
  addAll(given.map((file) => ({ name: file.name, read: () => textOfPdf(file) })));
}

/** @param {readonly File[]} given */
function take(given) {
  const pdfs = given.filter(({ name }) => isPdf(name));
  const others = given.filter(({ name }) => !isPdf(name));
  if (others.length > 0)
    addAll(others.map((file) => ({ name: file.name, read: () => textOf(file.name, file) })));
  if (pdfs.length === 0) return;
  if (reader) return addPdfs(pdfs);
  waiting.push(...pdfs);
  at('pdf').hidden = false;
  at('pdf-text').textContent =
    `${waiting.map(({ name }) => name).join(', ')}: PDF files need pdf.js, 1.8 MB from ${new URL(PDF_PLACE, location.href).host}. The files themselves stay here.`;
}

// ---- searching --------------------------------------------------------------------------------------

/** Sentences of a passage, which may begin and end within one. @param {string} text */
const sentencesOf = (text) =>
  [...new Intl.Segmenter('en', { granularity: 'sentence' }).segment(text)].map(({ segment }) => segment); // prettier-ignore

/** Finds the passages nearest to the query; a newer search ends an older one. */
async function search() {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  const text = query.value.trim();
  if (!embedder || !index) return;
  if (text === '' || index.size === 0) {
    at('results').replaceChildren();
    at('reading').hidden = true;
    at('status').textContent = index.size === 0 ? 'No documents yet' : `${count(index.size, 'passage')} to search`; // prettier-ignore
    document.documentElement.dataset.searched = text;
    return;
  }
  try {
    const start = performance.now();
    const row = (await embedder.embed(text, { signal })).row(0);
    const found = await index.search(row, { k: SHOWN, signal });
    at('fact-query').textContent = `${(performance.now() - start).toFixed(1)} ms`;
    const passages = found.map(({ metadata, score }) => ({ .../** @type {Passage} */ (metadata), score })); // prettier-ignore
    showFound(passages);
    await markSentences(passages, row, signal);
    document.documentElement.dataset.searched = text;
  } catch (error) {
    if (!signal.aborted) showFailure('The search failed', error);
  }
}

/** @param {(Passage & { score: number })[]} found */
function showFound(found) {
  at('status').textContent = `The nearest of ${count(index.size, 'passage')}`;
  at('results').replaceChildren(
    ...found.map((passage) => {
      const item = document.createElement('li');
      const button = document.createElement('button');
      const text = document.createElement('span');
      const about = document.createElement('span');
      button.type = 'button';
      text.className = 'text';
      text.textContent = passage.text.trim();
      about.className = 'score';
      about.textContent = `${passage.document} ${passage.score.toFixed(2)}`;
      button.style.setProperty('--near', Math.max(passage.score, 0).toFixed(3));
      button.append(text, about);
      button.addEventListener('click', () => {
        open(passage);
        at('reading-text').focus();
        at('reading-text').querySelector('mark')?.scrollIntoView({ block: 'center' });
      });
      item.append(button);
      return item;
    }),
  );
  if (found.length > 0) open(found[0]);
}

/**
 * Marks in each result the sentence that is nearest to the query.
 * @param {Passage[]} found
 * @param {Float32Array} row
 * @param {AbortSignal} signal
 */
async function markSentences(found, row, signal) {
  const sentences = found.map(({ text }) => sentencesOf(text.trim()));
  /** @type {Float32Array[]} */
  const rows = [...(await embedder.embed(sentences.flat(), { signal }))];
  for (const [i, all] of sentences.entries()) {
    const scores = rows
      .splice(0, all.length)
      .map((own) => own.reduce((sum, x, k) => sum + x * row[k], 0));
    const best = scores.indexOf(Math.max(...scores));
    at('results')
      .children[i].querySelector('.text')
      ?.replaceChildren(...all.map((sentence, k) => (k === best ? marked(sentence) : sentence)));
  }
}

/** @param {string} text */
function marked(text) {
  const mark = document.createElement('mark');
  mark.textContent = text;
  return mark;
}

/** Passages before and after the one that is shown. */
const AROUND = 3;

/** Shows a passage where it stands. @param {Passage} passage */
function open({ document: name, part, text }) {
  const before = [];
  const after = [];
  for (let i = 1; i <= AROUND; i++) {
    before.unshift(index.get(idOf(name, part - i))?.text ?? '');
    after.push(index.get(idOf(name, part + i))?.text ?? '');
  }
  at('reading').hidden = false;
  at('reading-title').textContent = name;
  const [head, tail] = [before.reduce(join, ''), after.reduce(join, '')];
  at('reading-text').replaceChildren(
    withoutEnd(head, text),
    marked(text),
    tail.slice(sharedLength(text, tail)),
  );
}

/** How many characters the end of a text and the beginning of the next have in common. @param {string} a @param {string} b */
function sharedLength(a, b) {
  for (let length = Math.min(a.length, b.length); length > 0; length--)
    if (a.endsWith(b.slice(0, length))) return length;
  return 0;
}
const join = (/** @type {string} */ a, /** @type {string} */ b) => a + b.slice(sharedLength(a, b));
const withoutEnd = (/** @type {string} */ a, /** @type {string} */ b) =>
  a.slice(0, a.length - sharedLength(a, b));

// ---- the page's controls ------------------------------------------------------------------------------

async function load() {
  try {
    embedder = await Embedder.load(undefined, {
      onProgress({ phase, loaded, total }) {
        if (total) progress.value = loaded / total;
        at('loading-text').textContent =
          phase === 'model' ? `Loading the model: ${megabytes(loaded)}` : 'Starting workers';
      },
    });
    index = await Index.load(KEPT, embedder).catch(() => Index.create(embedder));
  } catch (error) {
    return showFailure('The model could not be loaded', error);
  } finally {
    at('loading').hidden = true;
  }
  showDocuments();
  if (index.size > 0)
    at('fact-kept').textContent = megabytes((await index.arrayBuffer()).byteLength);
  document.documentElement.dataset.ready = '';
  await search();
}

query.addEventListener('input', search);
at('search').addEventListener('submit', (event) => {
  event.preventDefault();
  void search();
});
at('open').addEventListener('click', () => files.click());
files.addEventListener('change', () => {
  take([...(files.files ?? [])]);
  files.value = '';
});
at('guides').addEventListener('click', () =>
  addAll(
    GUIDES.map((name) => ({
      name,
      read: async () => {
        const response = await fetch(new URL(`../${name}`, import.meta.url));
        if (!response.ok) throw new Error(`${response.url}: status ${response.status}`);
        return textOf(name, await response.blob());
      },
    })),
  ),
);
at('pdf-load').addEventListener('click', () => {
  at('pdf').hidden = true;
  addPdfs(waiting);
  waiting = [];
});
document.addEventListener('dragover', (event) => {
  event.preventDefault();
  at('drop').classList.add('over');
});
document.addEventListener('dragleave', () => at('drop').classList.remove('over'));
document.addEventListener('drop', (event) => {
  event.preventDefault();
  at('drop').classList.remove('over');
  take([...(event.dataTransfer?.files ?? [])]);
});

await load();
await keepForLater();
