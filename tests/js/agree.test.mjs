// SPDX-License-Identifier: Apache-2.0
// The program and JavaScript give one answer to one question: texts, refusals, and what the zeros of options mean.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Generator } from '../../js/generate-node.js';
import { ADDON, ROOT, noAddon, wisp } from './support.mjs';

const MODEL = `${ROOT}models/wisp-stories.gguf`;
const folder = mkdtempSync(join(tmpdir(), 'wisp-agree-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {string} [input] */
const generate = (args, input) => wisp(['generate', '-m', MODEL, ...args], input);

/** A file with this text. @param {string} text */
function put(text) {
  const path = join(folder, 'file');
  writeFileSync(path, text);
  return path;
}

/** Options of a text with what the program calls them, and whether both take the value. @type {[string, string, number, boolean][]} */
const VALUES = [
  ['maxTokens', '-n', 0, false],
  ['topK', '--top-k', 0, false],
  ['topP', '--top-p', 0, false],
  ['topP', '--top-p', 1e-6, true],
  ['topP', '--top-p', 1, true],
  ['topP', '--top-p', 1.5, false],
  ['typicalP', '--typical-p', 0, false],
  ['minP', '--min-p', 0, true],
  ['temperature', '--temperature', 0, true],
  ['temperature', '--temperature', -1, false],
  ['repetitionPenalty', '--repetition-penalty', 0, false],
  ['presencePenalty', '--presence-penalty', 0, true],
  ['frequencyPenalty', '--frequency-penalty', 0, true],
  ['penaltyWindow', '--penalty-window', 0, false],
  ['seed', '--seed', 0, true],
  ['seed', '--seed', -1, false],
];

/** Messages, and whether both take them. @type {[any, boolean][]} */
const MESSAGES = [
  [[{ role: 'user', content: 'Once upon a time' }], true],
  [[{ role: 'user', content: [{ type: 'text', text: 'Once upon' }, { type: 'text', text: ' a time' }] }], true], // prettier-ignore
  [[{ role: 'user', content: [] }], false],
  [[{ role: 'user', content: 'a', name: null }], true],
  [[{ role: 'user', content: 'a', name: 'b' }], true],
  [[{ role: 'user', content: 'a', tool_calls: [] }], true],
  [[{ role: 'user', content: [{ type: 'image_url' }] }], false],
  [[{ role: 'user', content: 5 }], false],
  [[{ role: 'user' }], false],
  [[{ role: 'tool', content: 'a' }], true],
  [[{ role: 'assistant', content: 'a' }], true],
  [[], false],
];

/** Grammars of which some make parts of characters, and the tokens that are generated. @type {[string, number][]} */
const GRAMMARS = [1, 2, 3, 4, 5].flatMap((n) => [
  ['root ::= "\u{1f600}\u{1f600}"', n],
  ['root ::= "aéb"', n],
]);

for (const backend of /** @type {const} */ (['wasm', 'native'])) {
  describe(`the program and ${backend}`, { skip: backend === 'native' && noAddon }, () => {
    /** @type {any} */
    let generator;
    before(
      async () =>
        (generator = await Generator.load(MODEL, {
          backend,
          ...(backend === 'native' && { addon: ADDON }),
        })),
    );
    after(() => generator.close());

    test('texts become tokens, and these the text', async () => {
      for (const text of ['Once upon', ' Once', '  two spaces ', 'é 😀\u{1f600}', 'a\nb\tc', 'x']) {
        const ids = [...(await generator.tokenize(text))];
        const asJson = wisp(['tokenize', '-m', MODEL, '--input', 'ndjson'], JSON.stringify(text));
        assert.deepEqual(JSON.parse(asJson.out), ids);
        const back = wisp(['tokenize', '-m', MODEL, '--decode', '--format', 'ndjson'], asJson.out);
        assert.equal(await generator.detokenize(ids), text);
        assert.equal(JSON.parse(back.out).text ?? JSON.parse(back.out), text);
      }
      await assert.rejects(generator.detokenize([5000]), { code: 'argument' });
      assert.equal(wisp(['tokenize', '-m', MODEL, '--decode'], '[5000]').code, 4);
    });

    test('values of options are taken or refused', async () => {
      for (const [name, option, value, isGood] of VALUES) {
        const args = name === 'maxTokens' ? [] : ['-n', '3'];
        const { code } = generate(['--text', 'Once', ...args, option, String(value)]);
        assert.equal(code, isGood ? 0 : 2, `${option} ${value}`);
        const run = async () => {
          const options = { maxTokens: 3, [name]: value };
          return (await generator.generate('Once', options).result()).tokens;
        };
        const found = await run().catch((error) => error.code);
        assert.equal(found, isGood ? 3 : 'argument', `${name}: ${value}`);
      }
    });

    test('messages', async () => {
      for (const [messages, isGood] of MESSAGES) {
        const path = put(JSON.stringify(messages));
        const run = generate(['--messages', path, '--chat-format', 'plain', '-n', '6']);
        assert.equal(run.code, isGood ? 0 : 4, `${JSON.stringify(messages)} ${run.err}`);
        const reply = async () => {
          const options = { format: 'plain', maxTokens: 6 };
          const { text, end } = await generator.chat(messages, options).result();
          return { role: 'assistant', content: text, end };
        };
        const found = await reply().catch((error) => error.code);
        assert.deepEqual(found, isGood ? JSON.parse(run.out) : 'argument');
      }
    });

    test('a text that ends within a character ends with U+FFFD, and its pieces make the text', async () => {
      for (const [grammar, maxTokens] of GRAMMARS) {
        const options = { grammar, maxTokens };
        const { text } = await generator.generate('x', options).result();
        let joined = '';
        for await (const piece of generator.generate('x', options)) joined += piece;
        assert.equal(joined, text);
        const args = ['--text', 'x', '--grammar', put(grammar), '-n', String(maxTokens)];
        const { bytes } = generate(args);
        assert.equal(new TextDecoder('utf-8', { fatal: true }).decode(bytes), `${text}\n`);
      }
    });

    test('a mark and CR LF in text files, and a mark in texts of JavaScript', async () => {
      const schema = '{"enum":\r\n["yes"]}';
      const { text } = await generator.generate('x', { jsonSchema: `\ufeff${schema}` }).result();
      assert.equal(text, '"yes"');
      const grammar = 'root ::= "yes"\r\n';
      const { text: other } = await generator
        .generate('x', { grammar: `\ufeff${grammar}` })
        .result();
      assert.equal(other, 'yes');
      for (const mark of ['', '\ufeff']) {
        const made = generate(['--text', 'x', '--json-schema', put(mark + schema), '-n', '9']);
        assert.equal(made.out, '"yes"\n', made.err);
        const ruled = generate(['--text', 'x', '--grammar', put(mark + grammar), '-n', '9']);
        assert.equal(ruled.out, 'yes\n', ruled.err);
      }
      const plain = generate([put('Once\nupon'), '-n', '9']).out;
      for (const file of ['\ufeffOnce\nupon', 'Once\r\nupon', '\ufeffOnce\r\nupon\r\n'])
        assert.equal(generate([put(file), '-n', '9']).out, plain);
      const hello = '[{"role": "user",\n "content": "Once"}]';
      const args = ['--chat-format', 'plain', '-n', '4', '--messages'];
      const replies = [hello, `\ufeff${hello.replaceAll('\n', '\r\n')}`].map(
        (file) => generate([...args, put(file)]).out,
      );
      assert.equal(replies[0], replies[1]);
      for (const file of ['\ufeff"Once"\n"upon"', '"Once"\r\n"upon"\r\n']) {
        const lines = generate(['--data', put(file), '-n', '4']);
        assert.equal(lines.out.trim().split('\n').length, 2, lines.err);
      }
    });
  });
}
