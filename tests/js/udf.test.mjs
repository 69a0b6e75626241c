// SPDX-License-Identifier: Apache-2.0
// `wisp-engine udf`: one WebAssembly module that holds a model, imports nothing, and has the bits of
// `wisp embed --portable`. python/tests/test_udf.py runs it in wasmtime and in ClickHouse.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { pickBuild } from '../../js/calls/load.js';
import { udfModule } from '../../js/program/udf-module.js';
import { DEFAULT_MODEL_PATH, ROOT, floatsOf, wisp } from './support.mjs';

const TEXTS = ['cats are nice', '', 'Ein Satz mit „Zeichen“ 😀', 'word '.repeat(400), 'a\nb', 'a'];
const folder = mkdtempSync(join(tmpdir(), 'wisp-udf-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args */
function udf(...args) {
  const child = spawnSync(process.execPath, [`${ROOT}js/cli.js`, 'udf', ...args]);
  return { code: child.status, out: String(child.stdout), err: String(child.stderr) };
}

/** The rows of the program. @param {string[]} texts @param {string[]} args */
const native = (texts, ...args) =>
  floatsOf(
    wisp(
      ['embed', '--portable', '--input', 'ndjson', '--format', 'f32', ...args],
      texts.map((text) => `${JSON.stringify(text)}\n`).join(''),
    ).bytes,
  );

/** @param {number} value */
function leb(value) {
  const bytes = [];
  for (; value > 0x7f; value >>= 7) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}

/** Strings as RowBinary has them. @param {string[]} strings */
const rowBinary = (strings) =>
  Buffer.concat(strings.map((text) => Buffer.concat([Buffer.from(leb(Buffer.byteLength(text))), Buffer.from(text)]))); // prettier-ignore

/** An instance of a module, with its functions on rows. @param {string} path */
function open(path) {
  const module = new WebAssembly.Module(readFileSync(path));
  assert.deepEqual(WebAssembly.Module.imports(module), []);
  assert.deepEqual(
    WebAssembly.Module.exports(module).map(({ name }) => name),
    ['memory', 'clickhouse_create_buffer', 'clickhouse_destroy_buffer', 'embed', 'embed_prompt', 'similarity'], // prettier-ignore
  );
  const exports = /** @type {any} */ (new WebAssembly.Instance(module).exports);
  const bytesAt = (/** @type {number} */ buffer) => {
    const [data, size] = new Uint32Array(exports.memory.buffer, buffer, 2);
    return new Uint8Array(exports.memory.buffer, data, size);
  };
  const call = (
    /** @type {string} */ name,
    /** @type {Uint8Array} */ bytes,
    /** @type {number} */ n,
  ) => {
    const argument = exports.clickhouse_create_buffer(bytes.length);
    bytesAt(argument).set(bytes);
    const result = exports[name](argument, n);
    exports.clickhouse_destroy_buffer(argument);
    const copy = Buffer.from(bytesAt(result));
    exports.clickhouse_destroy_buffer(result);
    return copy;
  };
  /** Rows of floats. @param {Buffer} bytes @param {number} n @param {number} dimensions */
  const floats = (bytes, n, dimensions) => {
    const count = leb(dimensions);
    const width = count.length + 4 * dimensions;
    assert.equal(bytes.length, n * width);
    return Float32Array.from(
      Array.from({ length: n }, (_, i) => {
        const row = bytes.subarray(i * width, (i + 1) * width);
        assert.deepEqual([...row.subarray(0, count.length)], count);
        return [...floatsOf(row.subarray(count.length))];
      }).flat(),
    );
  };
  return { call, floats, memory: exports.memory };
}

test('--relaxed: the same functions', () => {
  const path = join(folder, 'relaxed.wasm');
  assert.equal(udf('--relaxed', DEFAULT_MODEL_PATH, path).code, 0);
  if (pickBuild() === 'simd128') return; // python/tests/test_udf.py runs it in wasmtime
  const { call, floats } = open(path);
  assert.deepEqual(
    floats(call('embed', rowBinary(TEXTS), TEXTS.length), TEXTS.length, 384),
    native(TEXTS),
  );
});

describe('the default model', () => {
  const path = join(folder, 'default.wasm');
  const written = udf(DEFAULT_MODEL_PATH, path);
  const instance = written.code === 0 ? open(path) : undefined;
  const { call, floats } = /** @type {NonNullable<typeof instance>} */ (instance);

  test('prints the SQL', () => {
    assert.equal(written.code, 0, written.err);
    assert.match(written.out, /CREATE FUNCTION embed LANGUAGE WASM FROM 'wisp' :: 'embed' ARGUMENTS \(text String\)/); // prettier-ignore
  });

  test('embeds with the bits of the program', () => {
    const expected = native(TEXTS);
    assert.deepEqual(floats(call('embed', rowBinary(TEXTS), TEXTS.length), TEXTS.length, 384), expected); // prettier-ignore
    assert.equal(call('embed', new Uint8Array(0), 0).length, 0);
  });

  test('embeds more rows than a batch of the program has', () => {
    const texts = Array.from({ length: 600 }, (_, i) => `text ${i % 41}`);
    assert.deepEqual(floats(call('embed', rowBinary(texts), 600), 600, 384), native(texts));
  });

  test('puts a prompt before a text', () => {
    const pairs = [['a', 'query: '], ['b', 'query: '], ['c', ''], ['d', 'x ']]; // prettier-ignore
    const rows = floats(call('embed_prompt', rowBinary(pairs.flat()), 4), 4, 384);
    const alone = pairs.flatMap(([text, prompt]) => [...native([text], '--prompt-text', prompt)]);
    assert.deepEqual([...rows], alone);
  });

  test('compares two texts', () => {
    const values = floatsOf(call('similarity', rowBinary(['a cat', 'a dog', 'a', 'a']), 2));
    const rows = native(['a cat', 'a dog']);
    const dot = rows.subarray(0, 384).reduce((sum, x, i) => sum + x * rows[384 + i], 0);
    assert.ok(Math.abs(values[0] - dot) < 1e-6);
    assert.ok(Math.abs(values[1] - 1) < 1e-6);
  });

  test('memory does not grow from call to call', () => {
    const before = instance?.memory.buffer.byteLength;
    const texts = rowBinary(TEXTS);
    for (let i = 0; i < 20; i++) call('embed', texts, TEXTS.length);
    assert.equal(instance?.memory.buffer.byteLength, before);
    assert.ok(Number(before) < 40e6, `${before} bytes`);
  });

  test('traps if the rows are malformed', () => {
    for (const [bytes, n] of /** @type {[number[], number][]} */ ([
        [[], 1],
        [[5, 97], 1],
        [[1, 97], 2],
        [[0xff, 0xff, 0xff, 0xff, 0x0f], 1],
        [[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1], 1],
      ]))
        assert.throws(() => open(path).call('embed', Uint8Array.from(bytes), n), WebAssembly.RuntimeError); // prettier-ignore
  });
});

describe('the native program', () => {
  const convert = (/** @type {string[]} */ ...args) => wisp(['convert', '--udf', ...args]);

  for (const options of [[], ['--relaxed']])
    test(`writes the same module and SQL ${options}`, () => {
      const [ours, theirs] = ['native', 'npx'].map((name) => join(folder, `${name}.wasm`));
      const made = convert(...options, DEFAULT_MODEL_PATH, ours);
      assert.equal(made.code, 0, made.err);
      const other = udf(...options, DEFAULT_MODEL_PATH, theirs);
      assert.equal(other.code, 0, other.err);
      assert.ok(readFileSync(ours).equals(readFileSync(theirs)));
      assert.equal(made.out.replace('native.wasm', 'npx.wasm'), other.out);
      assert.equal(convert(...options, DEFAULT_MODEL_PATH, ours).code, 0); // replaces a module
    });

  test('converts first', () => {
    const path = join(folder, "it's.wasm");
    const made = convert('--type', 'f16', `${ROOT}tests/data/models/cls12`, path);
    assert.equal(made.code, 0, made.err);
    assert.match(made.out, /it\\'s\.wasm/);
    const { call, floats } = open(path);
    const f16 = join(folder, 'f16.gguf');
    wisp(['convert', '--type', 'f16', `${ROOT}tests/data/models/cls12`, f16]);
    const expected = native(TEXTS, '-m', f16);
    const rows = floats(call('embed', rowBinary(TEXTS), TEXTS.length), TEXTS.length, expected.length / TEXTS.length); // prettier-ignore
    assert.deepEqual(rows, expected);
  });

  test('refuses what it cannot do, and leaves no file', () => {
    const notes = join(folder, 'user.txt');
    writeFileSync(notes, 'what the user wrote');
    const path = join(folder, 'refused.wasm');
    for (const [args, code, message] of /** @type {[string[], number, RegExp][]} */ ([
      [
        [`${ROOT}models/wisp-stories.gguf`, path],
        3,
        /wisp-stories\.gguf: portable: only embeddings of encoders are portable/,
      ],
      [[join(folder, 'absent.gguf'), path], 3, /absent\.gguf/],
      [[DEFAULT_MODEL_PATH, notes], 2, /is not a WebAssembly module/],
      [[DEFAULT_MODEL_PATH, join(folder, 'no/such.wasm')], 1, /no/],
    ])) {
      const run = convert(...args);
      assert.equal(run.code, code, run.err);
      assert.match(run.err, message);
    }
    assert.equal(wisp(['convert', '--relaxed', DEFAULT_MODEL_PATH, path]).code, 2);
    assert.equal(readFileSync(notes, 'utf8'), 'what the user wrote');
    assert.deepEqual(
      readdirSync(folder).filter((name) => /refused|user\.txt\./.test(name)),
      [],
    );
  });
});

test('takes a folder of Hugging Face, and pooling of the first token', () => {
  const path = join(folder, 'cls12.wasm');
  const model = `${ROOT}tests/data/models/cls12`;
  assert.equal(udf('--name', 'tiny', model, path).code, 0);
  const { call, floats } = open(path);
  const expected = native(TEXTS, '-m', model);
  const rows = floats(call('embed', rowBinary(TEXTS), TEXTS.length), TEXTS.length, expected.length / TEXTS.length); // prettier-ignore
  assert.deepEqual(rows, expected);
});

test('refuses what it cannot do', () => {
  const path = join(folder, 'none.wasm');
  const notes = join(folder, 'notes.txt');
  writeFileSync(notes, 'what the user wrote');
  for (const [args, code, message] of /** @type {[string[], number, RegExp][]} */ ([
    [[`${ROOT}models/wisp-stories.gguf`, path], 3, /makes no portable embeddings/],
    [[join(folder, 'absent.gguf'), path], 3, /absent\.gguf/],
    [[DEFAULT_MODEL_PATH, notes], 2, /is not a WebAssembly module/],
    [[DEFAULT_MODEL_PATH], 2, /one model and one output/],
    [['--name', "a'b", DEFAULT_MODEL_PATH, path], 2, /letters, digits and _/],
  ])) {
    const run = udf(...args);
    assert.equal(run.code, code, run.err);
    assert.match(run.err, message);
  }
  assert.equal(readFileSync(notes, 'utf8'), 'what the user wrote');
  for (const other of [Buffer.from('GGUF1234'), readFileSync(`${ROOT}js/wisp-convert.wasm`)])
    assert.throws(() => udfModule(other, Buffer.alloc(0)), /not a module of wisp for databases/);
});
