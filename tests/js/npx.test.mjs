// SPDX-License-Identifier: Apache-2.0
// The program of the package as it is shipped, `npx wisp-engine`, beside the program wisp.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { printFloat } from '../../js/program/cli-output.js';
import { Embedder } from '../../js/node.js';
import { serve } from '../../js/program/serve.js';
import { VERSION } from '../../js/base/version.js';
import { installNative, runCli } from './package-run.mjs';
import { writePackage } from './shipped.mjs';
import { ROOT, floatsOf, noAddon, smallModel, wisp } from './support.mjs';
import { until } from './this-process.mjs';

const MODEL = smallModel();
const INPUT = 'one\ntwo\r\n\nfour';
const env = { ...process.env, WISP_MODEL: MODEL };
const folder = mkdtempSync(join(tmpdir(), 'wisp-npx-'));
after(() => rmSync(folder, { recursive: true }));
writePackage(join(folder, 'npm'));
const CLI = join(folder, 'npm/js/cli.js');

/** @param {string[]} args @param {string} [input] @param {Record<string, string>} [more] */
function npx(args, input = '', more = {}) {
  return runCli(CLI, args, { input, env: { ...env, ...more } });
}

/** @param {string[]} args */
const start = (args) => spawn(process.execPath, [CLI, ...args], { env });

// Bits of native code are those of the program: require() finds the addon's package in this folder.
const packages = join(folder, 'packages');
const native = { NODE_PATH: packages };
if (!noAddon) installNative(packages, { hasProgram: false });

/** @param {string[]} args @param {string} [input] */
const program = (args, input) => wisp(['embed', ...args], input, { WISP_MODEL: MODEL });

describe('with native code, embed writes the bytes of wisp embed', { skip: noAddon }, () => {
  const own = ['embed', '--backend', 'native'];
  for (const format of ['text', 'json', 'ndjson', 'npy', 'f32', 'sparse']) {
    test(format, () => {
      const args = ['--format', format];
      const expected = program(args, INPUT);
      assert.equal(expected.code, 0);
      assert.deepEqual(npx([...own, ...args], INPUT, native).bytes, expected.bytes);
      assert.deepEqual(npx([...own, ...args], '', native).bytes, program(args, '').bytes);
    });
  }

  test('objects, strings, blank lines, a byte order mark, other fields as they stand', () => {
    const input =
      '\ufeff"one"\n{"id": 7, "text": "two", "tags": ["a}", {"b": 1.50}], "\\u00e9\\"": null}\r\n\n' +
      '{ "big":12345678901234567890 ,"embedd\\u0069ng" : [1], "text":"" }\n"fo\\u0075r"';
    const args = ['--input', 'ndjson', '--format', 'ndjson'];
    const expected = program(args, input);
    assert.equal(expected.code, 0);
    assert.equal(npx([...own, ...args], input, native).out, expected.out);
  });

  test('texts, files and standard input in their order; prompts; dimensions', () => {
    const path = join(folder, 'two.txt');
    writeFileSync(path, 'two\n\n');
    for (const more of [
      ['--text', 'one', path, '--text', '', '--', '-'],
      ['--text', 'one', '--prompt-text', 'query', '--dimensions', '5'],
    ]) {
      const args = ['--format', 'f32', ...more];
      assert.deepEqual(npx([...own, ...args], INPUT, native).bytes, program(args, INPUT).bytes);
    }
    const prompted = smallModel('prompted');
    const args = ['--text', 'one', '--prompt', 'query', '--model', prompted];
    const { code, out } = npx([...own, ...args], '', native);
    assert.equal(code, 0);
    assert.equal(out, program(args).out);
  });

  test('more texts than are under way at once', () => {
    const input = Array.from({ length: 3000 }, (_, i) => `line ${i % 7}`).join('\n');
    const args = ['--format', 'npy'];
    assert.deepEqual(npx([...own, ...args], input, native).bytes, program(args, input).bytes);
  });
});

test('with WebAssembly, embed writes the rows of the package', async () => {
  const embedder = await Embedder.load(MODEL, { workers: 1, backend: 'wasm' });
  const expected = await embedder.embed(['one', 'two', '', 'four'], { dimensions: 7 });
  await embedder.close();
  const args = ['embed', '--format', 'f32', '--dimensions', '7', '--backend', 'wasm', '-t', '3'];
  assert.deepEqual(floatsOf(npx(args, INPUT).bytes), Float32Array.from(expected.values()));
  assert.deepEqual(floatsOf(npx([...args, '-t', '0'], INPUT).bytes), Float32Array.from(expected.values())); // prettier-ignore
});

test('numbers are those that C prints: nine digits, ties to the even one', () => {
  for (const [value, text] of /** @type {[number, string][]} */ ([
    [0, '0'],
    [-0, '-0'],
    [1, '1'],
    [-120, '-120'],
    [0.5, '0.5'],
    [Math.fround(0.1), '0.100000001'],
    [513 / 1024, '0.500976562'],
    [515 / 1024, '0.502929688'],
    [-1027 / 2048, '-0.501464844'],
    [Math.fround(1e-5), '9.99999975e-06'],
    [Math.fround(1e-4), '9.99999975e-05'],
    [1 / 8192, '0.000122070312'],
    [2 ** 30, '1.07374182e+09'],
    [123456792, '123456792'],
    [1e-45, '1e-45'],
    [NaN, 'nan'],
    [-Infinity, '-inf'],
  ]))
    assert.equal(printFloat(value), text);
});

describe('what goes wrong has the exit code and the words of wisp', () => {
  /** @type {[string, string[], string, number, RegExp][]} */
  const cases = [
    ['no command', [], '', 2, /^usage: wisp-engine COMMAND/],
    ['a command of the native program only', ['doctor'], '', 2, /^wisp-engine: doctor is of the native program, .*run build\/wisp doctor/], // prettier-ignore
    ['an unknown command', ['frob'], '', 2, /no command frob/],
    ['an unknown option', ['embed', '--nope'], '', 2, /'--nope'.*embed --help/],
    ['no value', ['embed', '--text'], '', 2, /--text/],
    ['a wrong choice', ['embed', '--format', 'xml'], '', 2, /choose one of text, json, ndjson/],
    [
      'a wrong number',
      ['embed', '-t', '1.5'],
      '',
      2,
      /--workers 1.5: expected a whole number from 0 to/,
    ],
    ['too many dimensions', ['embed', '--dimensions', '9999'], '', 2, /--dimensions 9999/],
    ['two prompts', ['embed', '--prompt', 'a', '--prompt-text', 'b'], '', 2, /give one of them/],
    ['an unknown prompt', ['embed', '--prompt', 'nope'], '', 2, /no prompt of this name/],
    ['a prompt that is not a name', ['embed', '--prompt', 'a: '], '', 2, /no prompt of this name/],
    ['no file', ['embed', 'nowhere'], '', 1, /nowhere: cannot open: no such file or directory\n/],
    ['a folder', ['embed', ROOT], '', 1, /cannot read: illegal operation on a directory\n/],
    ['no model', ['embed', '-m', '/nowhere'], '', 3, /nowhere/],
    ['an empty path', ['embed', '-m', ''], '', 2, /--model: the path is empty/],
    ['no GGUF file', ['embed', '-m', CLI, '--text', 'a'], '', 3, /cli\.js/],
    ['a kernel set that is not here', ['embed', '--cpu', 'nope'], '', 3, /nope/],
    ['no native code', ['embed', '--backend', 'native'], '', 3, /is not installed/],
    ['a port', ['serve-demo', '--port', '70000'], '', 2, /--port 70000/],
    ['a control character', ['\x1b[2J'], '', 2, /\\u001b\[2J/],
  ];
  for (const [name, args, input, code, says] of cases) {
    test(name, () => {
      const run = npx(args, input);
      assert.equal(run.code, code, run.err);
      assert.match(run.err, says);
      assert.equal(run.out, '');
    });
  }

  test('a malformed line: what came before it is written, and the line is named', () => {
    const args = ['embed', '--input', 'ndjson', '--format', 'ndjson'];
    const { code, out, err } = npx(args, '"one"\n\n"two"\n{"text": 3}\n"four"\n');
    assert.equal(code, 4);
    assert.equal(out.trimEnd().split('\n').length, 2);
    assert.equal(
      err,
      'wisp-engine: -: line 4: neither a JSON string nor an object with a string "text"\n',
    );
    assert.match(npx(args, '{"text"').err, /^wisp-engine: -: line 1: not JSON: /);
  });

  test('a line that would be changed is refused, as by wisp', () => {
    const args = ['embed', '--input', 'ndjson', '--format', 'ndjson'];
    const nested = (/** @type {number} */ n) =>
      /** @type {any} */ (
        Buffer.from(`{"x": ${'["[", '.repeat(n)}1${']'.repeat(n)}, "text": "a"}`)
      );
    for (const [line, says] of /** @type {[Buffer, RegExp][]} */ ([
      [Buffer.from('{"text": "a", "name": "\xff"}', 'latin1'), /line 2: not valid UTF-8\n$/],
      [Buffer.from('"\\ud83d"'), /line 2: the text has half of a surrogate pair\n$/],
      [Buffer.from('{"text": "a", "te\\u0078t": "b"}'), /line 2: text: the key appears twice/],
      [
        Buffer.from('{"x": {"a": 1, "\\u0061" : 2}, "text": "a"}'),
        /line 2: a: the key appears twice/,
      ],
      [
        Buffer.from('{"text": "a", "x": ["b", {"b": {"b": "b"}, "c": [{}], "b": 0}]}'),
        /line 2: b: the key appears twice/,
      ],
      [nested(64), /line 2: nested too deeply/],
    ])) {
      const input = /** @type {any} */ (Buffer.concat([Buffer.from('"one"\n'), line]));
      for (const run of [npx(args, input), program(args.slice(1), input)]) {
        assert.equal(run.code, 4);
        assert.equal(run.out.trimEnd().split('\n').length, 1);
      }
      assert.match(npx(args, input).err, says);
    }
    for (const run of [npx(args, nested(63)), program(args.slice(1), nested(63))])
      assert.equal(run.code, 0, run.err);
    // A character may lie on both sides of a chunk, and lines need not be UTF-8.
    const wide = Buffer.from(`${'\u00e9'.repeat(32_767)}a\u00e9\n`);
    const long = /** @type {any} */ (Buffer.concat([wide, Buffer.from([255])]));
    assert.equal(npx(['embed', '--dimensions', '1'], long).out.split('\n').length, 3);
  });

  test('the input is the output', () => {
    const path = join(folder, 'both');
    writeFileSync(path, 'one\n');
    const { status, stderr } = spawnSync(process.execPath, [CLI, 'embed', path], {
      env,
      stdio: ['ignore', openSync(path, 'a'), 'pipe'],
    });
    assert.equal(status, 1);
    assert.match(String(stderr), /the input is the output, too/);
    assert.equal(readFileSync(path, 'utf8'), 'one\n');
  });

  test('a disk without room', { skip: process.platform !== 'linux' && 'no /dev/full' }, () => {
    const run = spawnSync(process.execPath, [CLI, 'embed', '--text', 'a'], {
      env,
      stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
    });
    assert.equal(run.status, 1);
    assert.match(String(run.stderr), /cannot write the output: no space left on device\n$/);
  });
});

describe('streams', () => {
  test('a line is answered before the next one comes', async () => {
    const child = start(['embed', '--dimensions', '1']);
    for (const line of ['one', 'two', 'three']) {
      child.stdin.write(`${line}\n`);
      const [answer] = await once(child.stdout, 'data');
      assert.match(String(answer), /^-?\d.*\n$/);
    }
    child.stdin.end();
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });

  test('a reader that closes the output ends it: 141, and nothing is said', async () => {
    const child = start(['embed']);
    let said = '';
    child.stderr.on('data', (bytes) => (said += bytes));
    child.stdin.on('error', () => {}); // it ends with lines unread
    child.stdin.write('one\n');
    await once(child.stdout, 'data');
    child.stdout.destroy();
    child.stdin.write('two\n'); // and standard input stays open
    assert.deepEqual(await once(child, 'close'), [141, null]);
    assert.equal(said, '');
  });

  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    test(`${signal} while it waits for input: 130, and rows are whole`, async () => {
      const child = start(['embed', '--format', 'ndjson']);
      let out = '';
      child.stdout.on('data', (bytes) => (out += bytes));
      child.stdin.write('one\ntwo\n');
      while (out.split('\n').length < 3) await once(child.stdout, 'data');
      child.kill(signal);
      assert.deepEqual(await once(child, 'close'), [130, null]);
      assert.equal(out.trimEnd().split('\n').map((line) => JSON.parse(line)).length, 2); // prettier-ignore
    });
  }
});

describe('serve-demo', () => {
  test('serves the pages and what they load, isolated, and nothing outside the package', async () => {
    const child = start(['serve-demo', '--port', '0']);
    try {
      const [line] = await once(child.stdout, 'data');
      const [home] = /^http:\/\/127\.0\.0\.1:\d+\/web-demo\//.exec(String(line)) ?? [''];
      const page = await fetch(home);
      assert.match(await page.text(), /demo\.js/);
      assert.equal(page.headers.get('cross-origin-opener-policy'), 'same-origin');
      assert.equal(page.headers.get('cross-origin-embedder-policy'), 'require-corp');
      assert.match(await (await fetch(new URL('/', home))).text(), /url=\/web-demo\//);
      const paths = [
        '../js/browser.js',
        '../models/wisp-default.gguf',
        'write.html',
        'neurons.html',
        'weights.html',
      ];
      for (const path of paths) {
        const { status } = await fetch(new URL(path, home), { method: 'HEAD' });
        assert.equal(status, 200, path);
      }
      const outside = await fetch(new URL('/%2e%2e/%2e%2e/etc/passwd', home));
      assert.equal(outside.status, 404);
      for (const path of [
        '/package.json',
        '/build/wisp',
        '/tests/js/npx.test.mjs',
        '/src/wisp.h',
      ]) {
        assert.equal((await fetch(new URL(path, home))).status, 404, path);
      }
      // A name of another site may lead here: its page must not read what is served.
      for (const [host, status] of /** @type {[string, number][]} */ ([
        ['evil.example', 421],
        ['evil.example:80', 421],
        ['localhost.evil.example', 421],
        ['127.0.0.1.evil.example', 421],
        ['localhost', 200],
        ['localhost:8080', 200],
        ['a.localhost', 200],
        ['[::1]:1', 200],
      ])) {
        const asked = get(home, { headers: { Host: host } });
        const [answer] = await once(asked, 'response');
        answer.resume();
        assert.equal(answer.statusCode, status, host);
      }
      const again = npx(['serve-demo', '--port', new URL(home).port]);
      assert.equal(again.code, 1);
      assert.match(again.err, /address already in use.*--port 0/);
    } finally {
      child.kill();
    }
    await once(child, 'exit');
  });

  test('a request that is given up leaves no file open', async () => {
    const { origin, close } = await serve();
    try {
      const before = readdirSync('/proc/self/fd').length;
      for (let i = 0; i < 20; i++) {
        const stop = new AbortController();
        const { body } = await fetch(`${origin}/models/wisp-default.gguf`, { signal: stop.signal });
        await body?.getReader().read();
        stop.abort();
      }
      // Connections end soon after; 20 files would stay.
      await until(() => readdirSync('/proc/self/fd').length < before + 10, 'files stay open');
    } finally {
      await close();
    }
  });

  test('--cold serves a model to the page that draws neurons, in ranges', async () => {
    const child = start(['serve-demo', '--port', '0', '--cold', `${ROOT}models/wisp-stories.gguf`]);
    try {
      const [line] = await once(child.stdout, 'data');
      const [home] = /^http:\/\/127\.0\.0\.1:\d+\/web-demo\//.exec(String(line)) ?? [''];
      const url = new URL('../models/wisp-cold.gguf', home);
      const bytes = readFileSync(`${ROOT}models/wisp-stories.gguf`);
      const { length } = bytes;
      /** @param {string} [range] @param {Record<string, string>} [more] */
      const get = async (range, more) => {
        const headers = { ...(range && { Range: range }), ...more };
        const response = await fetch(url, { headers });
        const body = Buffer.from(await response.arrayBuffer());
        return {
          status: response.status,
          place: response.headers.get('content-range'),
          body,
          response,
        };
      };
      const { status, place, body, response } = await get();
      assert.deepEqual([status, place, body.equals(bytes)], [200, null, true]);
      assert.equal(response.headers.get('accept-ranges'), 'bytes');
      const etag = String(response.headers.get('etag'));
      for (const [range, from, to] of /** @type {[string, number, number][]} */ ([
        ['bytes=0-0', 0, 1],
        ['bytes=100-199', 100, 200],
        [`bytes=${length - 5}-${length + 5}`, length - 5, length],
        [`bytes=${length - 5}-`, length - 5, length],
      ])) {
        const part = await get(range);
        assert.deepEqual([part.status, part.place], [206, `bytes ${from}-${to - 1}/${length}`]);
        assert.ok(part.body.equals(bytes.subarray(from, to)), range);
      }
      const beyond = await get(`bytes=${length}-`);
      assert.deepEqual([beyond.status, beyond.place], [416, `bytes */${length}`]);
      for (const range of ['bytes=5-4', 'bytes=-5', 'bytes=0-1,4-5', 'lines=1-2']) {
        assert.equal((await get(range)).status, 200, range);
      }
      assert.equal((await get('bytes=0-1', { 'If-Range': etag })).status, 206);
      assert.equal((await get('bytes=0-1', { 'If-Range': '"other"' })).status, 200);
      assert.equal((await get('bytes=0-1', { 'If-None-Match': etag })).status, 304);
      const folder = npx(['serve-demo', '--cold', tmpdir()]);
      assert.match(folder.err, /--cold .*: no file/);
      const none = npx(['serve-demo', '--cold', 'no/such.gguf']);
      assert.equal(none.code, 3);
      assert.match(none.err, /--cold no\/such\.gguf: /);
    } finally {
      child.kill();
    }
    await once(child, 'exit');
  });
});

test('--version says what computes, and each command describes itself', () => {
  assert.match(npx(['--version']).out, new RegExp(`^wisp-engine ${VERSION} \\(Node .*\\)\\n\\w`));
  for (const args of [['--help'], ['embed', '-h'], ['serve-demo', '--help'], ['convert', '-h']]) {
    const { code, out, err } = npx(args);
    assert.deepEqual([code, err], [0, '']);
    assert.match(out, /^usage: wisp-engine /);
  }
  assert.match(
    npx(['embed', '--stats', '--text', 'a']).err,
    /^1 texts \(0 truncated\), \d+ tokens/,
  );
});
