// SPDX-License-Identifier: Apache-2.0
// Prints sentences, one on each line, by which "make calibrated-patch" calibrates the model of web-demo/neurons.html: those of the
// pages' sample, of the texts of the tests, and of the documents.
import { readFileSync, readdirSync } from 'node:fs';

/** Shorter ones are headings, and longer ones lists. */
const LEAST_CHARACTERS = 25;
const MOST_CHARACTERS = 600;

const read = (/** @type {string} */ path) =>
  readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

const golden = read('tests/data/golden-default.jsonl')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line).text);

const documents = readdirSync(new URL('../docs', import.meta.url))
  .filter((name) => name.endsWith('.md'))
  .sort()
  .flatMap((name) => read(`docs/${name}`).split(/\n\s*\n/))
  .filter((paragraph) => !/^\s*\||^ {4}|^```/.test(paragraph)) // tables and code
  .flatMap((paragraph) => paragraph.replace(/^[-#*> ]+/gm, '').split(/(?<=[.:;])\s+/));

for (const text of [...read('web-demo/sample.txt').split('\n'), ...golden, ...documents]) {
  const plain = text.replace(/[`*]/g, '').replace(/\s+/g, ' ').trim();
  if (plain.length >= LEAST_CHARACTERS && plain.length <= MOST_CHARACTERS) console.log(plain);
}
