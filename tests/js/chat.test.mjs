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
const end = 'length';

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

  test('mistakes are errors, and end what is not a terminal', () => {
    const notThere = join(folder, 'none', 'x.json');
    for (const [input, code, message] of /** @type {[string, number, RegExp][]} */ ([
      ['/wrong\nOnce\n', 2, /\/wrong: unknown command \(\/help/],
      ['/\n', 2, /unknown command/],
      [`/save ${notThere}\n`, 1, /none\/x\.json/],
      [`/load ${notThere}\n`, 1, /x\.json: cannot open/],
      [`/load ${put('bad.json', '3')}\n`, 4, /bad\.json: messages: neither an array/],
      [`${'x'.repeat(3000)}\n`, 2, /prompt: \d+ tokens, but the model's context has 512/],
    ])) {
      const run = chat(input);
      assert.deepEqual([run.code, run.out], [code, ''], run.err);
      assert.match(run.err, message);
    }
  });

  test('a model without a template says how to name one', () => {
    for (const [args, code, message] of /** @type {[string[], number, RegExp][]} */ ([
      [
        ['--chat'],
        3,
        /stories\.gguf: tokenizer\.chat_template: .* --chat-template, or --chat-format/,
      ],
      [['--chat', '--chat-format', 'chatml'], 3, /chatml needs the token <\|im_start\|>/],
      [['--chat', '--chat-format', 'none'], 2, /no chat format "none", only chatml and plain/],
      [['--chat', '--no-thinking', ...plain], 2, /no_thinking: the chat template has no switch/],
      [['--chat', '--messages', 'x', ...plain], 2, /--chat and --messages: give only one/],
      [['--chat', '--text', 'x', ...plain], 2, /--chat and --text exclude each other/],
      [['--chat', ...plain, '--chat-template', 'x'], 2, /--chat-template exclude each other/],
      [['--chat', ...plain, '--variables', '[]'], 2, /--variables: not a JSON object/],
      [['--chat', ...plain, '--variables', '{'], 2, /--variables: line 1, column 2/],
      [['--chat', ...plain, '--date', 'today'], 2, /date: "today" is not a date/],
      [['--text', 'x', '--tools', 'y'], 2, /--tools requires --chat or --messages/],
      [['--text', 'x', '--system', 'y'], 2, /--system requires --chat or --messages/],
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
    const expected = { role: 'assistant', content: first, end };
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

  test('a template, tools, variables and the date', () => {
    const template = put(
      'template.jinja',
      "{{ bos_token ~ messages[-1].content }}{{ tools[0].name if tools else '' }}{{ who }}{{ strftime_now('%Y') }}",
    );
    const tools = put('tools.json', [{ name: ' upon' }]);
    const run = (/** @type {unknown} */ content, /** @type {string[]} */ ...args) =>
      wisp([
        ...['generate', '--messages', put('one.json', content), '-n', '12'],
        ...['--chat-template', template, '--date', '1234-05-06', ...args],
      ]);
    const once = [{ role: 'user', content: [{ type: 'text', text: 'Once' }], name: 'x' }];
    const expected = wisp(['generate', '-n', '12', '--text', 'Once upon a time1234']);
    for (const done of [
      run(once, '--tools', tools, '--variables', '{"who": " a time"}'),
      run({ messages: once, tools: [{ name: ' upon' }] }, '--variables', '{"who": " a time"}'),
      run(once, '--variables', '{"who": " a time", "tools": [{"name": " upon"}]}'),
    ]) {
      assert.deepEqual([done.code, done.err], [0, '']);
      assert.equal(`${JSON.parse(done.out).content}\n`, expected.out);
    }
    const bad = put('bad.jinja', "a\n{{ raise_exception('not so') }}");
    const refused = wisp([
      'generate',
      ...['--messages', put('one.json', once), '--chat-template', bad],
    ]);
    assert.equal(refused.code, 4);
    assert.match(refused.err, /one\.json: .*line 2: the template refuses: not so/);
  });

  test('a reply that calls tools is a message with the calls, if there are tools', () => {
    const called = '<tool_call>{"name": "f", "arguments": {"a": [1]}}</tool_call>';
    const grammar = put('call.gbnf', `root ::= ${JSON.stringify(`Yes. ${called}`)}`);
    const tools = put('tools.json', [{ name: 'f' }]);
    const path = put('one.json', hello);
    const run = (/** @type {string[]} */ ...args) =>
      wisp([
        ...['generate', '--messages', path, '--chat-format', 'plain', '--grammar', grammar],
        ...args,
      ]);
    const { code, out, err } = run('--tools', tools);
    assert.deepEqual([code, err], [0, '']);
    assert.deepEqual(JSON.parse(out), {
      role: 'assistant',
      content: 'Yes. ',
      tool_calls: [
        { type: 'function', id: 'call00001', function: { name: 'f', arguments: { a: [1] } } },
      ],
      end: 'grammar',
    });
    const text = JSON.parse(run().out);
    assert.deepEqual(text, { role: 'assistant', content: `Yes. ${called}`, end: 'grammar' });
  });

  test('wrong ones name the file and the field, after replies to those before', () => {
    for (const [message, expected] of /** @type {[unknown, RegExp][]} */ ([
      [1, /messages\[1\]: not an object/],
      [{ content: 'x' }, /messages\[1\]\.role: not a string/],
      [{ role: 7, content: 'x' }, /messages\[1\]\.role: not a string/],
    ])) {
      const whole = reply(put('wrong.json', [...hello, message]));
      assert.deepEqual([whole.code, whole.out], [4, ''], whole.err);
      assert.match(whole.err, /wrong\.json: messages\[1\]/);
      assert.match(whole.err, expected);
      const last = JSON.stringify({ id: 7, messages: hello });
      const lines = `${JSON.stringify(hello)}\n${JSON.stringify([...hello, message])}\n${last}\n`;
      const second = reply(put('wrong.ndjson', lines));
      assert.equal(second.code, 4);
      assert.match(second.err, /wrong\.ndjson: line 2: messages\[1\]/);
      const [good, bad, third] = second.out.trimEnd().split('\n');
      assert.deepEqual(JSON.parse(good), { role: 'assistant', content: first, end });
      assert.match(JSON.parse(bad).error, expected);
      assert.deepEqual(JSON.parse(third), { id: 7, role: 'assistant', content: first, end });
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
  });
});
