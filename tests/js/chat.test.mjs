// SPDX-License-Identifier: Apache-2.0
// `wisp generate --chat` and `--messages` as a user runs them. tests/unit/test_chat_terminal.c tries them on a terminal.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-chat-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} name @param {unknown} content */
function put(name, content) {
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content, null, 1));
  return path;
}

const plain = ['-n', '12', '--chat-format', 'plain'];

/** @param {string} input @param {string[]} args */
const chat = (input, ...args) => wisp(['generate', '--chat', ...plain, ...args], input);

/** @param {string} path @param {string[]} args */
const reply = (path, ...args) => wisp(['generate', '--messages', path, ...plain, ...args]);

const hello = [{ role: 'user', content: 'Once upon a time' }];
const first = ', there was a little girl named Lily. She';

describe('chat', () => {
  test('replies line by line, and keeps what was said', () => {
    const run = chat('Once upon a time\n\nOne day\n');
    assert.deepEqual([run.code, run.err], [0, '']);
    const [one, two] = run.out.split('\n');
    assert.equal(one, first);
    // The second reply continues all of the text.
    const text = `Once upon a time${one}\nOne day`;
    assert.equal(`${two}\n`, wisp(['generate', '-n', '12', '--text', text]).out);
  });

  test('/save writes the conversation, /load goes on with it, /clear forgets it', () => {
    const path = join(folder, 'saved.json');
    const whole = chat(`Once upon a time\n/save ${path}\nOne day\n`);
    assert.deepEqual(JSON.parse(String(readFileSync(path))), [
      ...hello,
      { role: 'assistant', content: first },
    ]);
    const loaded = chat(`The dog\n/load ${path}\nOne day\n/clear\nOnce upon a time\n`);
    assert.equal(loaded.code, 0);
    assert.equal(loaded.out.split('\n')[1], whole.out.split('\n')[1]);
    assert.equal(loaded.out.split('\n')[2], first);
  });

  test('--system comes first and stays after /clear; // begins a message', () => {
    const path = join(folder, 'system.json');
    const run = chat(`/clear\n//x "\\ \u0001\u00e9\n/save ${path}\n`, '--system', 'Be kind.');
    assert.equal(run.code, 0);
    const saved = JSON.parse(String(readFileSync(path)));
    assert.deepEqual(saved.slice(0, 2), [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: '/x "\\ \u0001\u00e9' },
    ]);
  });

  test('the help lists the commands', () => {
    const run = chat('/help\n');
    assert.deepEqual([run.code, run.out], [0, '']);
    assert.match(run.err, /\/save FILE .*\n.*\/load FILE/);
  });

  test('mistakes are errors, and end what is no terminal', () => {
    const notThere = join(folder, 'none', 'x.json');
    for (const [input, code, message] of /** @type {[string, number, RegExp][]} */ ([
      ['/wrong\nOnce\n', 2, /\/wrong: there is no such command \(\/help/],
      ['/\n', 2, /there is no such command/],
      [`/save ${notThere}\n`, 1, /none\/x\.json/],
      [`/load ${notThere}\n`, 1, /x\.json: cannot open/],
      [`/load ${put('bad.json', '[1]')}\n`, 4, /bad\.json: messages\[0\]: not an object/],
      [`${'x'.repeat(3000)}\n`, 2, /prompt: \d+ tokens, and the model's context has 512/],
    ])) {
      const run = chat(input);
      assert.deepEqual([run.code, run.out], [code, ''], run.err);
      assert.match(run.err, message);
    }
  });

  test('a model without a known format says how to name one', () => {
    for (const [args, code, message] of /** @type {[string[], number, RegExp][]} */ ([
      [['--chat'], 3, /stories\.gguf: tokenizer\.chat_template: .* \(--chat-format, .*plain$/m],
      [['--chat', '--chat-format', 'chatml'], 3, /chatml needs the token <\|im_start\|>/],
      [['--chat', '--chat-format', 'none'], 2, /no chat format "none", only llama2, /],
      [['--chat', '--no-thinking', ...plain], 2, /no_thinking: the chat format plain has no/],
      [['--chat', '--messages', 'x', ...plain], 2, /--chat and --messages: give one/],
      [['--chat', '--text', 'x', ...plain], 2, /--chat: --text does not go with it/],
      [['--text', 'x', '--system', 'y'], 2, /--system belongs to --chat and --messages/],
      [['--chat', ...plain, '-m', 'models/wisp-default.gguf'], 3, /bert generate no text/],
    ])) {
      const run = wisp(['generate', ...args], '');
      assert.equal(run.code, code, run.err);
      assert.match(run.err, message);
      assert.equal(run.out, '');
    }
  });
});

describe('messages', () => {
  test('one conversation, and one on each line', () => {
    const object = { messages: [{ role: 'user', content: [{ type: 'text', text: 'Once upon' }] }] };
    object.messages[0].content.push({ type: 'text', text: ' a time' });
    const expected = { role: 'assistant', content: first };
    for (const content of [hello, object]) {
      const run = reply(put('one.json', content));
      assert.deepEqual([run.code, run.err], [0, '']);
      assert.deepEqual(JSON.parse(run.out), expected);
    }
    const lines = `${JSON.stringify(hello)}\n\n${JSON.stringify(object)}\n`;
    const run = reply(put('lines.ndjson', lines));
    assert.equal(run.code, 0);
    assert.deepEqual(
      run.out.split('\n').map((line) => line && JSON.parse(line)),
      [expected, expected, ''],
    );
    assert.equal(wisp(['generate', '--messages', '-', ...plain], lines).out, run.out);
  });

  test('wrong ones name the file and the field, after replies to those before', () => {
    for (const [message, expected] of /** @type {[unknown, RegExp][]} */ ([
      [1, /messages\[1\]: not an object/],
      [{ content: 'x' }, /messages\[1\]\.role: neither "system", "user" nor "assistant"/],
      [{ role: 'tool', content: 'x' }, /messages\[1\]\.role: neither/],
      [{ role: 'user' }, /messages\[1\]\.content: not a string/],
      [{ role: 'user', content: 1 }, /messages\[1\]\.content: not a string/],
      [{ role: 'user', content: [{ type: 'image_url' }] }, /\.content: a part that is no/],
      [{ role: 'user', content: 'x', name: 'y' }, /messages\[1\]\.name: only role and content/],
      [{ role: 'system', content: 'x' }, /messages\[1\]\.role: system, which only the first/],
      [{ role: 'assistant', content: 'x' }, /messages\[1\]\.role: assistant: the last message/],
    ])) {
      const whole = reply(put('wrong.json', [...hello, message]));
      assert.deepEqual([whole.code, whole.out], [4, ''], whole.err);
      assert.match(whole.err, /wrong\.json: messages\[1\]/);
      assert.match(whole.err, expected);
      const lines = `${JSON.stringify(hello)}\n${JSON.stringify([...hello, message])}\n`;
      const second = reply(put('wrong.ndjson', lines));
      assert.equal(second.code, 4);
      assert.match(second.err, /wrong\.ndjson: line 2: messages\[1\]/);
      assert.deepEqual(JSON.parse(second.out), { role: 'assistant', content: first });
    }
  });

  test('files that hold no conversations are errors', () => {
    for (const [content, message] of /** @type {[string, RegExp][]} */ ([
      ['[]', /wrong\.json: messages: there are none/],
      ['{}', /wrong\.json: messages: neither an array/],
      ['[\n{"role": "user",}]', /wrong\.json: line 2, column/],
      [`${JSON.stringify(hello)}\n[1,]`, /wrong\.json: line 2, column/],
      [`${JSON.stringify(hello)}\n3`, /wrong\.json: line 2: messages: neither/],
    ])) {
      const run = reply(put('wrong.json', content));
      assert.equal(run.code, 4, run.err);
      assert.match(run.err, message);
    }
    assert.equal(reply(join(folder, 'none.json')).code, 1);
    assert.equal(
      reply(put('two.json', [{ role: 'system', content: 'x' }, ...hello]), '--system', 'y').code,
      4,
    );
  });
});
