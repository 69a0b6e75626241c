// SPDX-License-Identifier: Apache-2.0
// `wisp generate` as a user runs it.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-generate-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {string} [input] */
const generate = (args, input) => wisp(['generate', ...args], input);

describe('generate', () => {
  const story = generate(['--text', 'Once upon a time', '-n', '40']);

  test('continues a prompt with the model that comes with wisp', () => {
    assert.equal(story.code, 0);
    assert.match(story.out, /^, there was a little girl named Lily\. She loved to play outside/);
    assert.ok(story.out.endsWith('\n'));
  });

  test('reads the prompt from a file or standard input, without the end of its last line', () => {
    const path = join(folder, 'prompt.txt');
    writeFileSync(path, 'Once upon a time\n');
    assert.equal(generate([path, '-n', '40']).out, story.out);
    assert.equal(generate(['-n', '40'], 'Once upon a time\n').out, story.out);
    assert.equal(generate(['-', '-n', '40'], 'Once upon a time').out, story.out);
  });

  test('--echo, --stop and --stats', () => {
    const { out, err } = generate([
      '--echo',
      '--stop',
      ' Lily',
      '--stats',
      '--text',
      'Once upon a time',
    ]);
    assert.equal(out, 'Once upon a time, there was a little girl named\n');
    assert.match(err, /^prompt: 5 tokens in [\d.]+ s, [\d.]+ tokens\/s\ntext: {3}\d+ tokens in /m);
  });

  test('a seed gives one text, and another seed another', () => {
    const args = ['--text', 'The dog', '-n', '30', '--temperature', '1', '--top-k', '50', '--seed'];
    assert.equal(generate([...args, '7']).out, generate([...args, '7']).out);
    assert.notEqual(generate([...args, '7']).out, generate([...args, '8']).out);
  });

  test('threads and tokens read before change nothing', () => {
    for (const threads of ['1', '2', '5'])
      assert.equal(
        generate(['--text', 'Once upon a time', '-n', '40', '-t', threads]).out,
        story.out,
      );
  });

  test('wrong options and models are errors', () => {
    for (const [args, code, message] of [
      [['--text', 'a', '--temperature', 'hot'], 2, /--temperature hot: a number/],
      [['--text', 'a', '--temperature', '-1'], 2, /temperature: -1 is not between 0 and/],
      [['--text', 'a', '--top-p', '2'], 2, /top_p: 2 is not between 0 and 1/],
      [['--text', 'a', '--stop', ''], 2, /--stop: an empty text/],
      [['--text', 'a', '-n', '0'], 2, /--max-tokens 0: a whole number/],
      [['--text', 'x'.repeat(3000)], 2, /prompt: \d+ tokens, and the model's context has 512/],
      [[join(folder, 'none.txt')], 1, /none\.txt: cannot open: No such file/],
      [['--text', 'a', '-m', 'models/wisp-default.gguf'], 3, /architecture bert generate no text/],
    ]) {
      const run = generate(/** @type {string[]} */ (args));
      assert.equal(run.code, code, run.err);
      assert.match(run.err, /** @type {RegExp} */ (message));
      assert.equal(run.out, '');
    }
    const embed = wisp(['embed', '-m', 'models/wisp-stories.gguf', '--text', 'a']);
    assert.equal(embed.code, 3);
    assert.match(embed.err, /architecture llama make no embeddings/);
  });
});
