// SPDX-License-Identifier: Apache-2.0
// Runs the page of weights: has wisp-program.wasm read a model, and shows what it prints.
import { drawCosts, histogramOf } from './weights-picture.js';
import { at, count, keepForLater, megabytes, showFailure } from './page.js';

/** The types that `wisp quantize` writes (src/quantise/quantise.c), from most bits to fewest. */
const TYPES = [
  ...['f16', 'bf16', 'q8_0', 'q6_k', 'q5_1', 'q5_k', 'q5_0', 'q4_1', 'q4_k', 'q4_0', 'iq4_nl'],
  ...['iq4_xs', 'mxfp4', 'q3_k', 'q2_k', 'tq2_0', 'tq1_0', 'bitnet_t158'],
];

/** Weights of each tensor that are measured. */
const SAMPLE = 65536;

const FOLDER = '/given';
const DEFAULT = new URL('../models/wisp-default.gguf', import.meta.url);

/** @typedef {{ name: string, type: string, values: number, zeros: number, deviation: number, least: number, most: number, bins: number[] }} Tensor */
/** @typedef {{ name: string, type: string, elements: number, bytes: number, fallback: boolean, cosine: number }} Quantised */
/** @typedef {{ type: string, bytes: number, bits: number, unfit: number, measured: number, cosine: number, least: number, tensors: Map<string, Quantised> }} Cost */

const fileInput = /** @type {HTMLInputElement} */ (at('files'));
const costRows = /** @type {HTMLElement} */ (at('costs').querySelector('tbody'));
const tensorRows = /** @type {HTMLElement} */ (at('tensors').querySelector('tbody'));

/** The worker that reads the model that was chosen last. @type {Worker | undefined} */
let worker;
/** @type {Tensor[]} */
let tensors = [];
/** @type {Cost[]} */
let costs = [];
let chosen = 'Q4_0';

const say = (/** @type {string} */ text) => (at('status').textContent = text);

// ---- reading ----------------------------------------------------------------------------------------

class ProgramError extends Error {
  name = 'wisp';
}

/** Reads a model, and gives up another that is being read. @param {readonly File[]} files */
async function read(files) {
  if (files.length === 0) return;
  if (files.length > 1 && files.some(({ name }) => /\.gguf$/i.test(name))) {
    const text = 'give one GGUF file at a time, or all files of a Hugging Face folder';
    showFailure('The model could not be read', new ProgramError(text));
    return;
  }
  worker?.terminate();
  const own = (worker = new Worker(new URL('./weights-worker.js', import.meta.url), { type: 'module' })); // prettier-ignore
  reset();
  const paths = new Map(files.map((file) => [`${FOLDER}/${file.name}`, file]));
  const model = files.length === 1 ? `${FOLDER}/${files[0].name}` : FOLDER;
  try {
    say('Reading the tensors.');
    const { tensors: found } = await run(own, ['inspect', '--histogram', '--format', 'json', model], paths); // prettier-ignore
    if (own !== worker) return;
    tensors = found;
    showTensors(files);
    for (const [i, type] of TYPES.entries()) {
      say(`Measuring ${type.toUpperCase()}: type ${i + 1} of ${TYPES.length}.`);
      /** @type {HTMLProgressElement} */ (at('progress')).value = i / TYPES.length;
      const options = ['--type', type, '--fallback', 'f16', '--any-architecture'];
      const result = await run(
        own,
        [
          'quantize',
          '--dry-run',
          '--format',
          'json',
          '--sample',
          String(SAMPLE),
          ...options,
          model,
        ],
        paths,
      );
      if (own !== worker) return;
      costs.push(costOf(result.types[0]));
      showCosts();
      document.documentElement.dataset.drawn = '';
    }
    say(`All of ${count(TYPES.length, 'type')} are measured.`);
    own.terminate();
  } catch (error) {
    if (own !== worker) return;
    own.terminate();
    showFailure('The model could not be read', error);
    say('');
  } finally {
    if (own === worker) at('progress').hidden = true;
  }
  document.documentElement.dataset.read = files[0].name;
}

/**
 * Runs a command of the program in the worker.
 * @param {Worker} by @param {string[]} args
 * @param {Map<string, File>} files by path
 * @returns {Promise<any>} what the command prints, which is JSON
 */
function run(by, args, files) {
  return new Promise((resolve, reject) => {
    by.onmessage = ({ data: { code, output, errors } }) => {
      if (code === 0) resolve(JSON.parse(output));
      else reject(new ProgramError(errors.trim().replaceAll(`${FOLDER}/`, '') || `exit code ${code}`)); // prettier-ignore
    };
    by.onerror = (event) => reject(new ProgramError(event.message || 'the worker did not start'));
    by.postMessage({ args, files: [...files] });
  });
}

/** @param {{ type: string, tensors: Quantised[], bytes: number, elements: number }} result @returns {Cost} */
function costOf({ type, tensors: list, bytes, elements }) {
  const ofType = list.filter((tensor) => tensor.type === type && !tensor.fallback);
  const weights = ofType.reduce((sum, tensor) => sum + tensor.elements, 0);
  const cosine = ofType.reduce((sum, tensor) => sum + tensor.cosine * tensor.elements, 0);
  return {
    type,
    bytes,
    bits: (8 * bytes) / elements,
    unfit: list.filter(({ fallback }) => fallback).length,
    measured: ofType.length,
    cosine: cosine / weights,
    least: Math.min(...ofType.map((tensor) => tensor.cosine)),
    tensors: new Map(list.map((tensor) => [tensor.name, tensor])),
  };
}

// ---- showing ----------------------------------------------------------------------------------------

function reset() {
  [tensors, costs] = [[], []];
  costRows.replaceChildren();
  tensorRows.replaceChildren();
  delete document.documentElement.dataset.read;
  delete document.documentElement.dataset.drawn;
  at('failure').hidden = at('chart').hidden = at('costs').hidden = true;
  at('tensors-part').hidden = true;
  at('costs-hint').hidden = at('progress').hidden = false;
  at('progress').removeAttribute('value'); // nobody knows how long all weights take to read
  for (const fact of ['model', 'tensors', 'weights', 'bytes']) at(`fact-${fact}`).textContent = '–';
}

/** @param {string} text */
function cell(text, name = 'td') {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}

/** Six digits, as the program prints it. @param {number} cosine */
const cosineText = (cosine) => (Number.isFinite(cosine) ? cosine.toFixed(6) : '–');

/** @param {readonly File[]} files */
function showTensors(files) {
  tensorRows.replaceChildren(
    ...tensors.map((tensor) => {
      const row = document.createElement('tr');
      const name = cell(tensor.name, 'th');
      name.setAttribute('scope', 'row');
      const picture = document.createElement('td');
      picture.append(histogramOf(tensor));
      const largest = Math.max(Math.abs(tensor.least), Math.abs(tensor.most));
      row.append(
        ...[name, cell(tensor.type), cell(tensor.values.toLocaleString('en')), picture],
        ...[cell(largest.toPrecision(3)), cell(tensor.deviation.toPrecision(3))],
        ...[cell(`${((100 * tensor.zeros) / tensor.values).toFixed(2)} %`), cell('–')],
      );
      return row;
    }),
  );
  const weights = tensors.reduce((sum, { values }) => sum + values, 0);
  at('fact-model').textContent = files.length === 1 ? files[0].name : count(files.length, 'file');
  at('fact-tensors').textContent = tensors.length.toLocaleString('en');
  at('fact-weights').textContent = weights.toLocaleString('en');
  at('fact-bytes').textContent = megabytes(files.reduce((sum, { size }) => sum + size, 0));
  at('tensors-part').hidden = false;
}

function showCosts() {
  at('costs').hidden = at('chart').hidden = false;
  at('costs-hint').hidden = true;
  costRows.append(costRow(costs[costs.length - 1]));
  choose();
}

/** @param {Cost} cost */
function costRow({ type, bytes, bits, unfit, measured, cosine, least }) {
  const row = document.createElement('tr');
  const label = document.createElement('label');
  const radio = document.createElement('input');
  Object.assign(radio, { type: 'radio', name: 'type', value: type, checked: type === chosen });
  label.append(radio, type);
  const name = cell('', 'th');
  name.setAttribute('scope', 'row');
  name.append(label);
  row.append(name);
  if (measured === 0) {
    const none = cell('rows are not whole blocks of this type');
    /** @type {HTMLTableCellElement} */ (none).colSpan = 4;
    row.className = 'unfit';
    row.append(none);
  } else {
    if (unfit > 0) label.append(` (${count(unfit, 'tensor')} F16)`);
    row.append(cell((bytes / 1e6).toFixed(2)), cell(bits.toFixed(2)));
    row.append(cell(cosineText(cosine)), cell(cosineText(least)));
  }
  return row;
}

/** Shows what the chosen type makes of each tensor. */
function choose() {
  drawCosts(
    at('chart'),
    costs.filter(({ measured }) => measured > 0),
    chosen,
  );
  const cost = costs.find(({ type }) => type === chosen);
  if (!cost) return;
  at('tensors-as').textContent = `Cosine as ${chosen}`;
  for (const [i, row] of [...tensorRows.children].entries()) {
    const { name, type: own } = tensors[i];
    const tensor = cost.tensors.get(name);
    const type = tensor?.type ?? own;
    const other = type === own ? `stays ${own}` : `becomes ${type}`;
    /** @type {Element} */ (row.lastElementChild).textContent =
      tensor?.type === chosen && !tensor.fallback ? cosineText(tensor.cosine) : other;
  }
}

// ---- the page's controls ------------------------------------------------------------------------------

// Else a file that has been changed could not be chosen again.
fileInput.addEventListener('click', () => (fileInput.value = ''));
fileInput.addEventListener('change', () => void read([...(fileInput.files ?? [])]));
costRows.addEventListener('change', ({ target }) => {
  chosen = /** @type {HTMLInputElement} */ (target).value;
  choose();
});
/** Reads the model that comes with wisp. */
async function readDefault() {
  const before = worker;
  let blob;
  try {
    say('Fetching the model.');
    const response = await fetch(DEFAULT);
    if (!response.ok) throw new ProgramError(`${DEFAULT.href}: status ${response.status}`);
    blob = await response.blob();
  } catch (error) {
    if (before !== worker) return;
    showFailure('The model could not be fetched', error);
    say('');
    return;
  }
  // Another model that was chosen meanwhile stays.
  if (before === worker) await read([new File([blob], 'wisp-default.gguf')]);
}
at('default').addEventListener('click', readDefault);

const drop = at('drop');
drop.addEventListener('dragover', (event) => {
  event.preventDefault();
  drop.classList.add('over');
});
drop.addEventListener('dragleave', () => drop.classList.remove('over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  drop.classList.remove('over');
  const items = [...(event.dataTransfer?.items ?? [])];
  if (items.some((item) => item.webkitGetAsEntry()?.isDirectory)) {
    const error = new ProgramError('it is a folder: open it, and give all files that are in it');
    showFailure('The model could not be read', error);
    return;
  }
  void read([...(event.dataTransfer?.files ?? [])]);
});

await readDefault();
await keepForLater();
