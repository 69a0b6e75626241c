// SPDX-License-Identifier: Apache-2.0
// Runs the page that writes: a model goes on with a story, and the page says how fast it is.
import { Generator } from '../js/generate-browser.js';
import { at, keepForLater, megabytes, showFailure } from './page.js';

const prompt = /** @type {HTMLTextAreaElement} */ (at('prompt'));
const rules = /** @type {HTMLTextAreaElement} */ (at('rules'));
const write = /** @type {HTMLButtonElement} */ (at('write'));
const progress = /** @type {HTMLProgressElement} */ (at('progress'));
const temperature = /** @type {HTMLInputElement} */ (at('temperature'));
const most = /** @type {HTMLInputElement} */ (at('most'));
const file = /** @type {HTMLInputElement} */ (at('file'));
const choice = /** @type {HTMLSelectElement} */ (at('choice'));

/** @type {Generator | undefined} */
let generator;
/** Ends the story that is being written. */
let writing = new AbortController();

const perSecond = (/** @type {number} */ n, /** @type {number} */ seconds) =>
  `${Math.round(n / Math.max(seconds, 1e-6)).toLocaleString('en')} tokens/s`;

/** @param {File | string} [model] a file or a name on the hub; the model of the package unless given */
async function load(model) {
  writing.abort();
  write.disabled = true;
  at('failure').hidden = true;
  at('loading').hidden = false;
  try {
    if (typeof model === 'string') await import('../js/hub-browser.js'); // which finds names
    const loaded = await Generator.load(model, {
      onProgress({ phase, loaded, total }) {
        progress.value = loaded / (total ?? Infinity);
        const of = total ? ` of ${megabytes(total)}` : '';
        at('loading-text').textContent =
          phase === 'model'
            ? `Loading the model: ${megabytes(loaded)}${of}`
            : 'Starting the worker';
      },
    });
    await generator?.close();
    generator = loaded;
  } catch (error) {
    showFailure('The model could not be loaded', error);
  } finally {
    at('loading').hidden = true;
    write.disabled = !generator;
  }
  if (!generator) return;
  const { name, architecture, parameters, compute, kernels, reasons } = generator.info();
  at('model').textContent =
    `${model instanceof File ? model.name : name}: ${architecture}, ${(parameters / 1e6).toFixed(1)} million weights`;
  at('fact-how').textContent = `${compute}, ${kernels} (${reasons.build})`;
  showMemory();
  document.documentElement.dataset.ready = '';
}

function showMemory() {
  if (generator) at('fact-memory').textContent = megabytes(generator.stats().memoryBytes);
}

/** @param {string} text a JSON Schema, or a grammar: no rule of a grammar begins with a brace */
function rulesOf(text) {
  if (!text) return {};
  return text.startsWith('{') ? { jsonSchema: text } : { grammar: text };
}

/** Writes a story. A new one ends the one before. */
async function tell() {
  if (!generator) return;
  writing.abort();
  writing = new AbortController();
  const { signal } = writing;
  const { dataset } = document.documentElement;
  const text = at('text');
  at('failure').hidden = true;
  at('story').hidden = false;
  at('given').textContent = prompt.value;
  text.textContent = '';
  at('status').textContent = '';
  at('stop').hidden = false;
  dataset.writing = '';
  const start = performance.now();
  let first = 0;
  let tokens = 0;
  try {
    const story = generator.generate(prompt.value, {
      signal,
      maxTokens: Number(most.value),
      temperature: Number(temperature.value),
      topP: 0.95,
      ...rulesOf(rules.value.trim()),
    });
    for await (const token of story.tokens()) {
      first ||= performance.now();
      tokens++;
      text.append(token.text);
      at('fact-first').textContent = `${(first - start).toFixed(1)} ms`;
      at('fact-tokens').textContent = `${tokens}`;
      if (tokens > 1)
        at('fact-speed').textContent = perSecond(tokens - 1, (performance.now() - first) / 1000);
    }
    const result = await story.result();
    at('fact-tokens').textContent = `${result.tokens} (and ${result.promptTokens} of yours)`;
    if (result.tokens > 1)
      at('fact-speed').textContent = perSecond(result.tokens - 1, result.seconds);
    const ends = {
      length: 'The length is reached.',
      context: 'The model remembers no more.',
      grammar: 'The rules let nothing follow.',
    };
    at('status').textContent = ends[/** @type {'length'} */ (result.end)] ?? 'The end.';
    at('status').title = `seed ${result.seed}`;
    showMemory();
  } catch (error) {
    if (!signal.aborted) showFailure('The story failed', error);
    else if (signal === writing.signal) at('status').textContent = 'Stopped.';
  } finally {
    if (signal === writing.signal) {
      at('stop').hidden = true;
      delete dataset.writing;
    }
  }
}

at('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  void tell();
});
at('ask').addEventListener('click', ({ target }) => {
  const text = target instanceof HTMLElement && target.dataset.prompt;
  if (!text) return;
  prompt.value = text;
  void tell();
});
prompt.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  void tell();
});
at('stop').addEventListener('click', () => writing.abort());
temperature.addEventListener('input', () => (at('temperature-text').textContent = temperature.value)); // prettier-ignore
most.addEventListener('input', () => (at('most-text').textContent = `${most.value} tokens`));
choice.addEventListener('change', () => {
  if (choice.value === 'file') file.click();
  else void load(choice.value || undefined);
});
file.addEventListener('change', () => {
  const chosen = file.files?.[0];
  if (chosen) void load(chosen);
  file.value = '';
});

await load();
await keepForLater();
