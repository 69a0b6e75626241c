// SPDX-License-Identifier: Apache-2.0
// wisp inspect on files that someone else made: text in them may hold anything.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-inspect-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {number} value */
function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

/** @param {number} value */
function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** @param {Buffer} text */
const string = (text) => Buffer.concat([u64(text.length), text]);

/**
 * Writes a GGUF file of texts and one tensor, and returns its path.
 * @param {[Buffer, Buffer][]} metadata
 * @param {Buffer} tensor
 */
function writeGguf(metadata, tensor) {
  const STRING = 8;
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    u32(3),
    u64(1),
    u64(metadata.length),
    ...metadata.flatMap(([key, value]) => [string(key), u32(STRING), string(value)]),
    string(tensor),
    u32(1),
    u64(4),
    u32(0),
    u64(0),
  ]);
  const path = join(folder, 'hostile.gguf');
  const padding = Buffer.alloc((32 - (head.length % 32)) % 32);
  writeFileSync(path, Buffer.concat([head, padding, Buffer.alloc(32)]));
  return path;
}

/** The characters that a terminal acts on, and how they are shown. */
const controls = '\x01\t\r\n\x1b[2J\x7f\x9b31m\u200f\u2028\u202e\u2066';
const escaped =
  '\\u0001\\u0009\\u000d\\u000a\\u001b[2J\\u007f\\u009b31m\\u200f\\u2028\\u202e\\u2066';
const invalid = Buffer.from([0x61, 0xff, 0xe2, 0x82, 0x62, 0xed, 0xa0, 0x80]);

const path = writeGguf(
  [
    [Buffer.from('general.architecture'), Buffer.from('bert')],
    [Buffer.from('controls'), Buffer.from(`a${controls}z`)],
    [Buffer.from(`key${controls}`), Buffer.from('value')],
    [Buffer.from('invalid'), invalid],
    [Buffer.from('"quoted\\"'), Buffer.from('"quoted\\"')],
    [Buffer.from('long'), Buffer.from('ü'.repeat(100))],
    [Buffer.from('emoji'), Buffer.from('👩‍💻 naïve 日本')],
  ],
  Buffer.from(`tensor${controls}`),
);

describe('inspect', () => {
  test('the table shows control characters as escapes', () => {
    const { bytes, code, err } = wisp(['inspect', path]);
    assert.equal(code, 0, err);
    const out = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    // eslint-disable-next-line no-control-regex
    assert.doesNotMatch(out.replaceAll('\n', ''), /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e]/);
    const lines = out.split('\n');
    assert.ok(lines.some((line) => line.endsWith(` a${escaped}z`)));
    assert.ok(lines.some((line) => line.startsWith(`  key${escaped} `)));
    assert.ok(lines.some((line) => line.startsWith(`  tensor${escaped} F32`)));
    assert.ok(lines.some((line) => line.endsWith(' a\ufffd\ufffdb\ufffd\ufffd\ufffd')));
    assert.ok(lines.some((line) => line.endsWith(` ${'ü'.repeat(72)}...`)));
    assert.ok(lines.some((line) => line.endsWith(' 👩‍💻 naïve 日本')));
  });

  test('the table keeps its columns', () => {
    const { out } = wisp(['inspect', path]);
    const columns = out
      .split('\n')
      .filter((line) => /^ {2}(long|emoji|invalid) /.test(line))
      .map((line) => line.search(/(?<=^ {2}\S+ +)\S/));
    assert.deepEqual(columns, [47, 47, 47]);
  });

  test('JSON is valid UTF-8 and has all that UTF-8 can express', () => {
    const { bytes, code } = wisp(['inspect', '--format', 'json', path]);
    assert.equal(code, 0);
    const out = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    // eslint-disable-next-line no-control-regex
    assert.doesNotMatch(out.replaceAll('\n', ''), /[\x00-\x1f\x7f-\x9f]/);
    const { metadata, tensors } = JSON.parse(out);
    assert.equal(metadata.controls, `a${controls}z`);
    assert.equal(metadata[`key${controls}`], 'value');
    assert.equal(metadata.invalid, 'a\ufffd\ufffdb\ufffd\ufffd\ufffd');
    assert.equal(metadata['"quoted\\"'], '"quoted\\"');
    assert.equal(metadata.long, 'ü'.repeat(100));
    assert.equal(metadata.emoji, '👩‍💻 naïve 日本');
    assert.equal(tensors[0].name, `tensor${controls}`);
  });

  test('messages show no control characters', () => {
    const { err, code } = wisp(['embed', '-m', join(folder, '\x1b[2Jabsent'), '--text', 'x']);
    assert.equal(code, 3);
    assert.ok(!err.includes('\x1b'));
    const { err: named } = wisp(['embed', join(folder, '\x1b[2Jabsent')]);
    assert.match(named, /\\u001b\[2Jabsent: cannot open/);
  });
});
