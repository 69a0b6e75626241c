// SPDX-License-Identifier: Apache-2.0
// wisp similarity, and the prompts that it and wisp embed take.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ROOT, cosine, floatsOf, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-similarity-'));
after(() => rmSync(folder, { recursive: true }));

/** A model whose embeddings are not normalised, and one with prompts. */
const LONG = `${ROOT}tests/data/models/mean-shards`;
const PROMPTED = `${ROOT}tests/data/models/prompted`;

/** @param {string} model @param {string[]} texts @param {string[]} [options] */
function embed(model, texts, options = []) {
  const args = ['embed', '-m', model, '--format', 'f32', ...options];
  const { bytes, code, err } = wisp(args, texts.join('\n'));
  assert.equal(code, 0, err);
  const values = floatsOf(bytes);
  const size = values.length / texts.length;
  return texts.map((_, i) => values.subarray(i * size, (i + 1) * size));
}

/** @param {string[]} args @param {string} input */
function lines(args, input) {
  const { out, code, err } = wisp(['similarity', ...args], input);
  assert.equal(code, 0, err);
  return out.replace(/\n$/, '').split('\n');
}

describe('scores', () => {
  const texts = ['water', 'the cat sat on the mat', 'naïve café 日本 1999', 'a b c d'];

  test('pairs: cosines where embeddings are not normalised, too', () => {
    const [first, ...others] = embed(LONG, texts);
    assert.ok(Math.hypot(...first) > 1.5, 'or the model does not test it');
    const pairs = texts.slice(1).map((text) => `${texts[0]}\t${text}`);
    const scores = lines(['--pairs', '-m', LONG], pairs.join('\n')).map(Number);
    scores.forEach((score, i) => assert.ok(Math.abs(score - cosine(first, others[i])) < 2e-6));
  });

  test('query: ranks by cosine', () => {
    const [query, ...rows] = embed(LONG, texts);
    const best = texts.slice(1).sort((a, b) => {
      const [p, q] = [a, b].map((text) => cosine(query, rows[texts.indexOf(text) - 1]));
      return q - p;
    });
    const found = lines(['-q', texts[0], '-m', LONG], texts.slice(1).join('\n'));
    assert.deepEqual(
      found.map((line) => line.split('\t')[1]),
      best,
    );
    assert.ok(found.every((line) => Math.abs(parseFloat(line)) <= 1));
  });

  test('the best of many, and of equals the first, for every N', () => {
    const input = Array.from({ length: 500 }, (_, i) => `${'cat water mat '.slice(i % 11)}`);
    const numbered = input.map((text, i) => ({ text, i }));
    const scores = lines(['--pairs', '-m', PROMPTED], input.map((t) => `cat\t${t}`).join('\n'));
    numbered.sort((a, b) => Number(scores[b.i]) - Number(scores[a.i]) || a.i - b.i);
    for (const top of [1, 2, 7, 100, 499, 500, 1000]) {
      const found = lines(['-q', 'cat', '-k', `${top}`, '-m', PROMPTED], input.join('\n'));
      assert.deepEqual(
        found.map((line) => line.slice(line.indexOf('\t') + 1)),
        numbered.slice(0, top).map(({ text }) => text),
      );
    }
  });

  test('a line with a NUL is printed whole', () => {
    assert.match(lines(['-q', 'a', '-m', PROMPTED], 'a\0b\n')[0], /\ta\0b$/);
  });

  test('a malformed line costs its own score, and is named', () => {
    const file = join(folder, 'pairs.txt');
    writeFileSync(file, 'one\tone\n');
    const input = 'a\tb\nno tab here\nc\td\n';
    const { out, err, code } = wisp(['similarity', '--pairs', '-m', PROMPTED, file, '-'], input);
    assert.equal(code, 4);
    const whole = lines(['--pairs', '-m', PROMPTED], 'one\tone\na\tb\nc\td\n');
    assert.deepEqual(out.trimEnd().split('\n'), [...whole.slice(0, 2), 'nan', whole[2]]);
    assert.match(err, /^wisp: -: line 2: no tab/);
    assert.equal(wisp(['similarity', '--pairs', '-m', PROMPTED], 'no tab\n').out, 'nan\n');
  });

  test('an empty input is said', () => {
    for (const how of [['-q', 'a'], ['--pairs']]) {
      const { out, err, code } = wisp(['similarity', ...how, '-m', PROMPTED], '');
      assert.deepEqual([out, code], ['', 0]);
      assert.match(err, /no lines to compare/);
    }
  });
});

describe('prompts', () => {
  test('--prompt takes the name of a prompt, --prompt-text a text', () => {
    const [none] = embed(PROMPTED, ['water'], ['--prompt-text', '']);
    const [named] = embed(PROMPTED, ['water'], ['--prompt', 'passage']);
    const [literal] = embed(PROMPTED, ['water'], ['--prompt-text', 'passage: ']);
    assert.deepEqual(named, literal);
    assert.notDeepEqual(none, named);
    const [byDefault] = embed(PROMPTED, ['water']);
    assert.deepEqual(byDefault, embed(PROMPTED, ['water'], ['--prompt', 'query'])[0]);
    assert.notDeepEqual(byDefault, none);
  });

  test('an unknown name is an error that lists the names there are', () => {
    const unknown = wisp(['embed', '-m', PROMPTED, '--prompt', 'qeury', '--text', 'x']);
    assert.equal(unknown.code, 2);
    assert.equal(unknown.out, '');
    assert.match(unknown.err, /--prompt qeury: .* document, passage, query$/m);
    const none = wisp(['embed', '--prompt', 'query', '--text', 'x']);
    assert.equal(none.code, 2);
    assert.match(none.err, /the model has no prompts; --prompt-text/);
    const both = ['--prompt', 'query', '--prompt-text', 'query: '];
    assert.equal(wisp(['embed', '-m', PROMPTED, ...both, '--text', 'x']).code, 2);
  });

  test('similarity puts one before queries and one before passages', () => {
    const [query] = embed(PROMPTED, ['water'], ['--prompt', 'query']);
    const [passage] = embed(PROMPTED, ['the cat'], ['--prompt', 'passage']);
    const score = cosine(query, passage);
    const named = ['--query-prompt', 'query', '--passage-prompt', 'passage', '-m', PROMPTED];
    const texts = ['--query-prompt-text', 'query: ', '--passage-prompt-text', 'passage: '];
    for (const options of [named, [...texts, '-m', PROMPTED]]) {
      const [pair] = lines(['--pairs', ...options], 'water\tthe cat\n');
      assert.ok(Math.abs(Number(pair) - score) < 2e-6);
      const [found] = lines(['-q', 'water', ...options], 'the cat\n');
      assert.ok(Math.abs(parseFloat(found) - score) < 2e-4);
    }
    for (const option of ['--query-prompt', '--passage-prompt']) {
      const { code, err } = wisp(['similarity', '--pairs', '-m', PROMPTED, option, 'x'], 'a\tb\n');
      assert.equal(code, 2);
      assert.match(err, new RegExp(`${option} x: .* document, passage, query`));
    }
  });
});
