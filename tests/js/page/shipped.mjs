// SPDX-License-Identifier: Apache-2.0
// A page that uses every entry of the installed package.
import { Embedder } from '../../../js/browser.js';
import '../../../js/cold-browser.js';
import { convert } from '../../../js/convert-browser.js';
import { Generator } from '../../../js/generate-browser.js';
import '../../../js/hub-browser.js';
import { Index } from '../../../js/index-browser.js';
import { search } from '../../../js/search.js';
import { chunk } from '../../../js/text.js';
import '../../../js/threads-browser.js';

const TINY = '/tiny.gguf';

/** @param {Float32Array} rows */
const bits = (rows) => new Uint32Array(rows.buffer).join();

/**
 * Uses each part of the package once, with the models that it brings and a small one.
 */
export async function useAll() {
  const plain = await Embedder.load();
  const rows = await plain.embed(['a cat', 'a kitten', 'the stock market']);
  const [, { index: second }] = await search(plain, 'cats', { rows, k: 2 });
  if (second === 2) throw new Error('the stock market is near to cats');
  if ((await chunk(plain, 'a cat'))[0].end !== 5) throw new Error('chunk');
  await plain.close();
  const team = await Embedder.load(undefined, { threads: 2, workers: 1 });
  const { threads } = team.info();
  const again = await team.embed(['a cat', 'a kitten', 'the stock market']);
  if (bits(again) !== bits(rows)) throw new Error('threads change bits');
  await team.setSparse({ predictor: 'dense' });
  await team.close();
  const ranged = await Embedder.load(TINY, { cold: 'wait', workers: 1 });
  await ranged.embed(['a cat']);
  await ranged.close();
  const generator = await Generator.load();
  const text = await generator.generate('Once upon a time', { maxTokens: 8 }).text();
  if (!text.startsWith(', there was')) throw new Error(text);
  await generator.close();
  const bytes = await (await fetch(TINY)).blob();
  if (!(await convert(bytes, { type: 'f16' })).size) throw new Error('nothing converted');
  const index = await Index.create({ dimensions: 2 });
  await index.add({ id: 'a', vector: [1, 0] });
  if ((await index.search([1, 0]))[0].id !== 'a') throw new Error('index');
  const { code, constructor } = await Embedder.load('/nowhere').catch((reason) => reason);
  return { threads, code, kind: constructor.name };
}
