// SPDX-License-Identifier: Apache-2.0
// wisp classify: what it writes, and what it refuses. tests/unit/test_classify.c has the scores.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { ROOT, wisp } from './support.mjs';

const MODEL = `${ROOT}tests/data/models/labels-bert`;
const [SINGLE, PAIRS] = JSON.parse(readFileSync(`${MODEL}/golden.json`, 'utf8'));

/** @param {string[]} args @param {string} [input] */
function objects(args, input) {
  const { out, code, err } = wisp(['classify', '-m', MODEL, '--compute', 'f32', ...args], input);
  assert.equal(code, 0, err);
  return out.trim().split('\n').map((line) => JSON.parse(line)); // prettier-ignore
}

/** @param {{ label: string, score: number }[]} found @param {number[]} scores @param {number} count */
function check(found, scores, count) {
  const best = scores.map((score, i) => ({ label: SINGLE.labels[i], score }));
  best.sort((a, b) => b.score - a.score);
  assert.deepEqual(
    found.map((entry) => entry.label),
    best.slice(0, count).map((entry) => entry.label),
  );
  found.forEach(({ score }, i) => assert.ok(Math.abs(score - best[i].score) < 2e-5));
}

describe('wisp classify', () => {
  test('writes the labels of each line, the best first', () => {
    const found = objects([], SINGLE.texts.join('\n'));
    assert.equal(found.length, SINGLE.texts.length);
    found.forEach((object, i) => check(object.labels, SINGLE.scores[i], 3));
  });

  test('of pairs, and only the best', () => {
    const lines = PAIRS.texts.map((/** @type {string} */ text, /** @type {number} */ i) => `${text}\t${PAIRS.seconds[i]}`); // prettier-ignore
    const found = objects(['--pairs', '--top', '1'], lines.join('\n'));
    found.forEach((object, i) => check(object.labels, PAIRS.scores[i], 1));
  });

  test('keeps the fields of objects', () => {
    const [{ id, labels }] = objects(['--input', 'ndjson'], `{"id":7,"text":"${SINGLE.texts[0]}","labels":[]}`); // prettier-ignore
    assert.equal(id, 7);
    check(labels, SINGLE.scores[0], 3);
  });

  test('a line without a tab is null, and the others are classified', () => {
    const { out, code, err } = wisp(['classify', '-m', MODEL, '--pairs'], 'a\tb\nc\n');
    assert.equal(code, 4);
    assert.match(err, /line 2: no tab/);
    assert.match(out, /^\{"labels":.*\}\nnull\n$/);
  });

  test('models and options that do not go together', () => {
    const other = wisp(['classify', '-m', `${ROOT}tests/data/models/dense`, '--text', 'x']);
    assert.equal(other.code, 3);
    assert.match(other.err, /no labels/);
    assert.equal(wisp(['classify', '-m', MODEL, '--pairs', '--input', 'csv'], '').code, 2);
    const ranked = wisp(['rerank', '-m', MODEL, '-q', 'x', '--text', 'y']);
    assert.equal(ranked.code, 3);
    assert.match(ranked.err, /3 labels.*wisp classify/);
  });
});
