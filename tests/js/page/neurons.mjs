// SPDX-License-Identifier: Apache-2.0
// Steps of tests in web-demo/neurons.html, in any browser.
import { Embedder } from '../../../js/browser.js';

const textOf = (/** @type {string} */ selector) =>
  [...document.querySelectorAll(selector)].map((element) => element.textContent ?? '');

/** @param {() => boolean} holds */
async function wait(holds) {
  while (!holds()) await new Promise((resolve) => requestAnimationFrame(resolve));
}

/**
 * Types a text, and returns what the page shows when it was read.
 * @param {string} text
 * @param {'wait' | 'rest' | 'skip'} mode
 */
export async function readOnPage(text, mode) {
  const { dataset } = document.documentElement;
  const at = (/** @type {string} */ selector) => /** @type {any} */ (document.querySelector(selector)); // prettier-ignore
  await wait(() => 'ready' in dataset || !at('#failure').hidden);
  at('#speed').value = '';
  at('#speed').dispatchEvent(new Event('change'));
  if (!at(`[value=${mode}]`).checked) {
    at(`[value=${mode}]`).click();
    await wait(() => 'ready' in dataset);
  }
  at('#query').value = text;
  at('#query').dispatchEvent(new Event('input'));
  await wait(() => dataset.read === text || !at('#failure').hidden);
  // The picture follows in the next frame.
  for (let i = 0; i < 2; i++) await new Promise((resolve) => requestAnimationFrame(resolve));
  return {
    failure: at('#failure').hidden ? '' : at('#failure-text').textContent,
    status: at('#status').textContent,
    file: at('#file-text').textContent,
    layers: textOf('#layers span'),
    near: textOf('#near output'),
    same: at('#same').textContent,
    isolated: crossOriginIsolated,
  };
}

/**
 * Returns what the page has to show of a text, by the whole model.
 * @param {string} url
 * @param {string} text
 * @param {import('../../../types/index.js').SparseOptions['predictor']} predictor
 */
export async function wholeResults(url, text, predictor = 'lowrank') {
  const embedder = await Embedder.load(url, { workers: 1, predictor });
  const texts = [text, ...textOf('#near span')];
  const rows = await embedder.embed(texts);
  const [row, ...lines] = texts.map((_, i) => rows.row(i));
  await embedder.close();
  let hash = 0x811c9dc5;
  for (const byte of new Uint8Array(row.slice().buffer)) hash = Math.imul(hash ^ byte, 0x01000193);
  return {
    near: lines.map((line) => line.reduce((sum, x, i) => sum + x * row[i], 0).toFixed(3)),
    print: (hash >>> 0).toString(16).padStart(8, '0'),
  };
}
