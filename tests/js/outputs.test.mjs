// SPDX-License-Identifier: Apache-2.0
// Nothing that exists is replaced without a word: files of other kinds, and changes of other processes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { convert } from '../../js/convert-node.js';
import { Index } from '../../js/index-node.js';
import { ROOT, smallModel, start, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-outputs-'));
after(() => rmSync(folder, { recursive: true }));
const at = (/** @type {string} */ name) => join(folder, name);
const TEXT = 'What the user wrote.\n';
const MODEL = smallModel();
const STORIES = `${ROOT}models/wisp-stories.gguf`;

/**
 * What each command that writes a file is called with, and what the file begins with.
 * @type {[name: string, args: (path: string) => string[], begins: string, input?: string][]}
 */
const WRITERS = [
  ['index build', (path) => ['index', 'build', '-m', MODEL, path, '-'], 'WISPINDX', 'one\ntwo\n'],
  ['convert', (path) => ['convert', MODEL, path], 'GGUF'],
  ['quantize', (path) => ['quantize', '--type', 'q8_0', '--fallback', 'f16', MODEL, path], 'GGUF'],
  [
    'calibrate',
    (path) => ['calibrate', MODEL, '--data', '-', '-o', path, '--rank', '8'],
    'GGUF',
    'one two\nthree\nfour five six\n'.repeat(20),
  ],
  [
    'generate --state',
    (path) => ['generate', '-m', STORIES, '--text', 'Once', '-n', '2', '--state', path],
    'WISPSAVE',
  ],
  ['embed --trace', (path) => ['embed', '-m', MODEL, '--text', 'one', '--trace', path], '{'],
  [
    'quantize --report',
    (path) => [
      ...['quantize', '--type', 'q8_0', '--fallback', 'f16', MODEL, at('reported.gguf')],
      ...['--report', path.replace(/\.json$/, '')],
    ],
    '{',
  ],
];

describe('commands that write', () => {
  for (const [name, args, begins, input] of WRITERS) {
    test(`${name} replaces files of its kind, and others with --force only`, () => {
      const path = at('written.json');
      writeFileSync(path, TEXT);
      const refused = wisp(args(path), input);
      assert.equal(refused.code, 2, refused.err);
      assert.match(refused.err, /written\.json exists and is not an? .*--force/);
      assert.equal(readFileSync(path, 'utf8'), TEXT);
      if (begins !== 'WISPSAVE') {
        // A state is read before it is replaced, so that --force meets a malformed one.
        const forced = wisp([...args(path), '--force'], input);
        assert.equal(forced.code, 0, forced.err);
        assert.equal(readFileSync(path, 'latin1').slice(0, begins.length), begins);
      }
      for (const before of [undefined, '']) {
        rmSync(path, { force: true });
        if (before !== undefined && begins !== 'WISPSAVE') writeFileSync(path, before);
        const made = wisp(args(path), input);
        assert.equal(made.code, 0, made.err);
      }
      const again = wisp(args(path), input);
      assert.equal(again.code, 0, again.err);
      assert.equal(readFileSync(path, 'latin1').slice(0, begins.length), begins);
      rmSync(path);
    });
  }

  test('/save of a chat', () => {
    writeFileSync(at('notes.txt'), TEXT);
    const args = ['generate', '-m', STORIES, '--chat', '--chat-format', 'plain', '-n', '2'];
    const { err } = wisp(args, `Hello\n/save ${at('notes.txt')}\n`);
    wisp(args, `Hello\n/save ${at('chat.json')}\n`);
    assert.match(err, /notes\.txt exists and is not a JSON file/);
    assert.equal(readFileSync(at('notes.txt'), 'utf8'), TEXT);
    assert.equal(JSON.parse(readFileSync(at('chat.json'), 'utf8'))[0].content, 'Hello');
  });

  test('an index of nothing is not written', () => {
    for (const input of ['', '\n \n\t\n', '\ufeff']) {
      const { code, err } = wisp(['index', 'build', '-m', MODEL, at('none.index')], input);
      assert.equal(code, 4);
      assert.match(err, /no texts, and no index is written/);
      assert.ok(!existsSync(at('none.index')));
    }
  });
});

describe('the package', () => {
  test('convert replaces GGUF files, and others with force only', async () => {
    const output = at('package.gguf');
    writeFileSync(output, TEXT);
    const refused = { code: 'argument', field: 'output', message: /exists and is not a GGUF file/ };
    await assert.rejects(convert(MODEL, { output }), refused);
    assert.equal(readFileSync(output, 'utf8'), TEXT);
    await convert(MODEL, { output, force: true });
    await convert(MODEL, { output });
    assert.equal(readFileSync(output, 'latin1').slice(0, 4), 'GGUF');
  });

  test('Index.save likewise', async () => {
    const index = await Index.create({ dimensions: 2 });
    const path = at('package.index');
    writeFileSync(path, TEXT);
    const refused = { code: 'argument', field: 'path', message: /exists and is not an index/ };
    await assert.rejects(index.save(path), refused);
    assert.equal(readFileSync(path, 'utf8'), TEXT);
    await index.save(path, { force: true });
    await index.save(path);
    assert.equal((await Index.load(path)).size, 0);
  });
});

describe('changes of an index at the same time', () => {
  const lines = (/** @type {number} */ k) =>
    Array.from({ length: 50 }, (_, i) => `{"id":"${k}-${i}","text":"number ${i}"}\n`).join('');

  test('programs that add wait for each other', async () => {
    const path = at('shared.index');
    wisp(['index', 'build', '-m', MODEL, path], 'first\n');
    const args = ['index', 'add', '-m', MODEL, path, '--input', 'ndjson'];
    const codes = Array.from({ length: 4 }, async (_, k) => {
      const child = start(args);
      child.stdin.end(lines(k));
      child.stdout.resume();
      return (await once(child, 'close'))[0];
    });
    assert.deepEqual(await Promise.all(codes), [0, 0, 0, 0]);
    assert.equal((await Index.load(path)).size, 201);
  });

  test('an index that was changed since it was read is not saved over', async () => {
    const path = at('lost.index');
    const first = await Index.create({ dimensions: 2 });
    await first.add({ id: 'a', vector: [1, 0] });
    await first.save(path);
    const second = await Index.load(path);
    await second.add({ id: 'b', vector: [0, 1] });
    await second.save(path);
    await first.add({ id: 'c', vector: [1, 1] });
    const refused = { code: 'io', field: 'path', message: /changed by another program or tab/ };
    await assert.rejects(first.save(path), refused);
    await second.save(path);
    assert.deepEqual([...(await Index.load(path)).ids()], ['a', 'b']);
    await first.save(at('elsewhere.index'));
    await first.save(path, { force: true });
    assert.deepEqual([...(await Index.load(path)).ids()], ['a', 'c']);
  });

  test('of processes that save in JavaScript, no change is lost without an error', async () => {
    const path = at('many.index');
    await (await Index.create({ dimensions: 2 })).save(path);
    const script = `
      import { Index } from ${JSON.stringify(pathToFileURL(`${ROOT}js/index-node.js`).href)};
      let saved = 0;
      for (let i = 0; i < 10; i++) {
        const index = await Index.load(process.argv[1]);
        await index.add({ id: process.argv[2] + i, vector: [i, 1] });
        await index.save(process.argv[1]).then(() => saved++, (error) => {
          if (error.code !== 'io' || !/changed by another/.test(error.message)) throw error;
        });
      }
      process.stdout.write(String(saved));`;
    const saved = Array.from({ length: 4 }, async (_, k) => {
      const args = ['--input-type=module', '-e', script, path, `${k}-`];
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      let out = '';
      child.stdout.on('data', (chunk) => (out += chunk));
      assert.equal((await once(child, 'close'))[0], 0);
      return Number(out);
    });
    const all = (await Promise.all(saved)).reduce((sum, n) => sum + n, 0);
    assert.ok(all >= 4);
    assert.equal((await Index.load(path)).size, all);
    assert.deepEqual(
      readdirSync(folder).filter((name) => /tmp$|lock$/.test(name)),
      [],
    );
  });

  test('the lock of a process that was killed does not count for ever', async () => {
    const path = at('locked.index');
    const index = await Index.create({ dimensions: 2 });
    writeFileSync(`${path}.lock`, '');
    const { utimesSync } = await import('node:fs');
    utimesSync(`${path}.lock`, 1, 1);
    await index.save(path);
    assert.ok(!existsSync(`${path}.lock`));
  });
});

describe('index build', () => {
  /** @param {string} name */
  const listed = (name) =>
    wisp(['index', 'list', at(name), '--format', 'ndjson'])
      .out.trim()
      .split('\n')
      .map((line) => JSON.parse(line));

  test('blank lines have no vector, and keep their numbers', () => {
    const args = ['index', 'build', '-m', MODEL, at('blank.index')];
    assert.equal(wisp(args, 'one\n\n \t\r\ntwo\n').out, '2 added\n');
    assert.deepEqual(
      listed('blank.index').map(({ id }) => id),
      ['stdin:1', 'stdin:4'],
    );
    const { out } = wisp(['similarity', '-m', MODEL, '--query', 'ok', '-'], 'one\n\n\ntwo\n');
    assert.equal(out.trim().split('\n').length, 2);
  });

  test('says what it cuts, and --chunk divides it', () => {
    const long = `${'word '.repeat(300)}one. ${'word '.repeat(300)}two.`;
    const args = ['index', 'build', '-m', MODEL, at('long.index')];
    const cut = wisp(args, `short\n${long}\n`);
    assert.equal(cut.out, '2 added\n');
    assert.match(cut.err, /1 text is longer than the model's \d+ tokens.*--chunk/);
    const whole = wisp([...args, '--chunk'], `short\n${long}\n`);
    assert.equal(whole.code, 0, whole.err);
    assert.equal(whole.err, '');
    const pieces = listed('long.index');
    assert.equal(pieces[0].id, 'stdin:1');
    assert.deepEqual(
      pieces.slice(1).map(({ id }) => id),
      pieces.slice(1).map((_, i) => `stdin:2#${i + 1}`),
    );
    assert.equal(
      pieces
        .slice(1)
        .map(({ metadata }) => metadata.text)
        .join(''),
      long,
    );
    assert.ok(pieces.length > 3);
    const object = JSON.stringify({ id: 'a', text: long, page: 3 });
    wisp([...args, '--chunk', '--input', 'ndjson'], object);
    assert.deepEqual(
      listed('long.index').map(({ id, metadata }) => [id, metadata.page]),
      pieces.slice(1).map((_, i) => [`a#${i + 1}`, 3]),
    );
    // A shorter version takes the place of all pieces.
    const add = ['index', 'add', '-m', MODEL, at('long.index'), '--chunk', '--input', 'ndjson'];
    wisp(add, '{"id": "a", "text": "short"}');
    assert.deepEqual(
      listed('long.index').map(({ id }) => id),
      ['a'],
    );
  });
});
