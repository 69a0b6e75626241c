// SPDX-License-Identifier: Apache-2.0
// `wisp tokenize` as a user runs it, both ways.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { wisp } from './support.mjs';

const stories = ['-m', 'models/wisp-stories.gguf'];

/** @param {string} text @param {string[]} args */
const tokenize = (text, ...args) => wisp(['tokenize', ...args, '--text', text]);

/** @param {string} input @param {string[]} args */
const decode = (input, ...args) => wisp(['tokenize', '--decode', ...args], input);

describe('tokenize', () => {
  test('ids as arrays, objects and a table', () => {
    assert.equal(tokenize('Once upon é', ...stories).out, '[1,403,407,410,485]\n');
    const run = tokenize('Once upon é', ...stories, '--format', 'ndjson');
    assert.deepEqual(JSON.parse(run.out), {
      ids: [1, 403, 407, 410, 485],
      pieces: ['<s>', '▁Once', '▁upon', '▁', 'é'],
      starts: [0, 0, 4, 9, 10],
      ends: [0, 4, 9, 10, 12],
    });
    assert.equal(
      tokenize('Once', ...stories, '--format', 'table').out,
      '       1  0-0          <s>\n     403  0-4          ▁Once\n\n',
    );
  });

  test('places in bytes: of characters cut into bytes, and unknown where the text was changed', () => {
    const bytes = JSON.parse(tokenize('日', ...stories, '--format', 'ndjson').out);
    assert.deepEqual(bytes.starts.slice(-3), [0, 1, 2]);
    assert.deepEqual(bytes.ends.slice(-3), [1, 2, 3]);
    const words = JSON.parse(tokenize('A Man, café now', '--format', 'ndjson').out);
    assert.deepEqual(words.starts, [0, 0, 2, 5, null, null, null]);
    assert.deepEqual(words.ends, [0, 1, 5, 6, null, null, null]);
  });

  test('ids become their text again', () => {
    const texts = ['Once upon a time', ' two  spaces', 'é 日本 😀', '', '"quoted" \\ '];
    const args = texts.flatMap((text) => ['--text', text]);
    for (const format of ['json', 'ndjson']) {
      const ids = wisp(['tokenize', ...stories, '--format', format, ...args]).out;
      assert.equal(decode(ids, ...stories).out, texts.map((text) => `${text}\n`).join(''));
      assert.deepEqual(
        decode(ids, ...stories, '--format', 'json')
          .out.trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
        texts,
      );
    }
    assert.deepEqual(JSON.parse(decode('[1,403]', ...stories, '--format', 'ndjson').out), {
      ids: [1, 403],
      text: 'Once',
    });
    assert.equal(decode('[1,403,2]', ...stories, '--special').out, '<s> Once</s>\n');
    assert.equal(decode('[101,1037,2158,102]').out, 'a man\n');
    assert.equal(decode('[233]', ...stories).out, '\ufffd\n'); // a part of a character
  });

  test('wrong options and ids are errors', () => {
    for (const [
      args,
      input,
      code,
      message,
    ] of /** @type {[string[], string, number, RegExp][]} */ ([
      [['--format', 'text'], '', 2, /--format text: choose one of json, ndjson, table/],
      [['--decode', '--format', 'table'], '', 2, /--format table: choose one of text, json/],
      [['--special'], '', 2, /--special requires --decode/],
      [['--decode', '--input', 'ndjson'], '', 2, /--input ndjson: with --decode/],
      [['--decode'], '[1,', 4, /-: line 1, column 4: /],
      [['--decode'], '[1]\n3', 4, /-: line 2: neither an array of token ids nor/],
      [['--decode'], '{"text": "x"}', 4, /neither an array of token ids/],
      [['--decode'], '[1.5]', 4, /line 1: ids: not an array of token ids/],
      [['--decode'], '[-1]', 4, /line 1: ids: not an array/],
      [['--decode'], '[99999999]', 4, /line 1: ids: id 99999999, but there are 30522 tokens/],
    ])) {
      const run = wisp(['tokenize', ...args], input);
      assert.equal(run.code, code, run.err);
      assert.match(run.err, message);
    }
  });
});
