// SPDX-License-Identifier: Apache-2.0
// Bulk work of `wisp embed`: files that a later run continues, shards, and lines that are malformed. That a killed run
// loses nothing is in tests/malformed/test_resume.c.
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { wisp } from './support.mjs';

const ROW_BYTES = 4 * 384;
const folder = mkdtempSync(join(tmpdir(), 'wisp-bulk-'));
after(() => rmSync(folder, { recursive: true }));

const lines = Array.from({ length: 1100 }, (_, i) => `text ${i % 97} of ${i}`);
const input = join(folder, 'lines.txt');
writeFileSync(input, `${lines.join('\n')}\n`);
const whole = wisp(['embed', '--format', 'f32', input]).bytes;

describe('--output', () => {
  const output = join(folder, 'rows.f32');
  const embed = (/** @type {string[]} */ ...args) =>
    wisp(['embed', '--format', 'f32', '--output', output, ...args]);
  const rows = () => readFileSync(output);

  test('has what standard output would have, which stays empty', () => {
    const { code, out } = embed(input);
    assert.equal(code, 0);
    assert.equal(out, '');
    assert.deepEqual(rows(), whole);
  });

  test('an existing file is replaced only with --force', () => {
    const { code, err } = embed('--text', 'one');
    assert.equal(code, 2);
    assert.match(err, /rows\.f32 exists: --resume continues it, --force replaces it/);
    assert.deepEqual(rows(), whole);
    assert.equal(embed('--force', '--text', 'one').code, 0);
    assert.equal(rows().length, ROW_BYTES);
  });

  test('--resume embeds what was added to the input', () => {
    const growing = join(folder, 'growing.txt');
    writeFileSync(growing, 'text 0 of 0\n');
    assert.equal(embed('--force', growing).code, 0);
    writeFileSync(growing, `${lines.slice(0, 30).join('\n')}\n`);
    assert.equal(embed('--resume', growing).code, 0);
    assert.deepEqual(rows(), whole.subarray(0, 30 * ROW_BYTES));
  });

  test('--resume refuses another input, model, format or shard, and changes nothing', () => {
    assert.equal(embed('--force', input).code, 0);
    for (const [args, code, message] of /** @type {[string[], number, RegExp][]} */ ([
      [['--text', 'one'], 4, /has 1 texts, fewer than the 1100/],
      [['--text', 'one', input], 4, /the first 1100 texts are not those that/],
      [['--portable', input], 2, /another model, prompt or kernel set/],
      [['--prompt-text', 'x: ', input], 2, /another model, prompt or kernel set/],
      [['--dimensions', '8', input], 2, /another number of dimensions: 384, not 8/],
      [['--shard', '1/2', input], 2, /another shard: 1\/1, not 1\/2/],
      [['--format', 'npy', input], 2, /another format: f32, not npy/],
    ])) {
      const run = embed('--resume', ...args);
      assert.equal(run.code, code, run.err);
      assert.match(run.err, message);
      assert.deepEqual(rows(), whole);
    }
  });

  test('a file that lost bytes, or whose progress is gone or damaged, is refused', () => {
    truncateSync(output, 100);
    assert.match(embed('--resume', input).err, /has 100 bytes, fewer than the 1689600 that/);
    writeFileSync(`${output}.progress`, '{"rows":1}\n');
    assert.match(embed('--resume', input).err, /progress: not the progress of wisp embed/);
    rmSync(`${output}.progress`);
    assert.match(embed('--resume', input).err, /exists without .*\.progress/);
    assert.equal(rows().length, 100);
  });

  test('the input cannot be the output', () => {
    const path = join(folder, 'both.txt');
    writeFileSync(path, 'one\n');
    const { code, err } = wisp(['embed', '--output', path, '--force', path]);
    assert.equal(code, 1);
    assert.match(err, /the input is the output, too/);
    assert.equal(readFileSync(path, 'utf8'), 'one\n');
  });

  test('wrong use', () => {
    for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
      [['--resume'], /--resume: only with --output/],
      [['--output', join(folder, 'new'), '--format', 'json'], /--format json cannot be continued/],
      [['--output', '/dev/null'], /not a regular file/],
      [['--output', ''], /the path is empty/],
      [['--shard', '0/2'], /expected I\/N/],
      [['--shard', '3/2'], /expected I\/N/],
      [['--shard', '1/2/3'], /expected I\/N/],
    ])) {
      const run = wisp(['embed', ...args], 'one\n');
      assert.equal(run.code, 2, run.err);
      assert.match(run.err, message);
    }
    assert.ok(!existsSync(join(folder, 'new')));
  });
});

test('--shard: the shards have each text once', () => {
  const shards = [1, 2, 3].map((i) => wisp(['embed', '--format', 'f32', '--shard', `${i}/3`, input]).bytes); // prettier-ignore
  for (let i = 0; i < lines.length; i++) {
    const row = Math.floor(i / 3) * ROW_BYTES;
    assert.deepEqual(
      shards[i % 3].subarray(row, row + ROW_BYTES),
      whole.subarray(i * ROW_BYTES, (i + 1) * ROW_BYTES),
    );
  }
  assert.equal(shards[0].length + shards[1].length + shards[2].length, whole.length);
});

describe('--keep-going', () => {
  const malformed = '"one"\n{"id":2}\n[\n{"text":"two"}\n';
  const embed = (/** @type {string[]} */ ...args) =>
    wisp(['embed', '--input', 'ndjson', '--keep-going', ...args], malformed);

  test('ndjson: an object says why', () => {
    const { code, out, err } = embed('--format', 'ndjson');
    assert.equal(code, 4);
    const records = out.trimEnd().split('\n').map((line) => JSON.parse(line)); // prettier-ignore
    assert.equal(records[0].embedding.length, 384);
    assert.match(records[1].error, /neither a JSON string nor an object/);
    assert.equal(records[1].line, 2);
    assert.match(records[2].error, /^column 2: /);
    assert.equal(records[3].embedding.length, 384);
    assert.match(err, /line 2: .*\n.*line 3, column 2: /);
  });

  test('json: null; f32: NaN', () => {
    const array = JSON.parse(embed('--format', 'json').out);
    assert.deepEqual(array.map((/** @type {unknown} */ row) => row === null), [false, true, true, false]); // prettier-ignore
    const { bytes } = embed('--format', 'f32');
    const rows = new Float32Array(
      bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
    );
    assert.equal(rows.length, 4 * 384);
    rows.forEach((value, i) => assert.equal(Number.isNaN(value), i >= 384 && i < 3 * 384));
  });
});
