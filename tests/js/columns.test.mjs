// SPDX-License-Identifier: Apache-2.0
// Rows of values as the input of the program: --input csv and tsv, with --column.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { smallModel, wisp } from './support.mjs';

const MODEL = smallModel();
const folder = mkdtempSync(join(tmpdir(), 'wisp-columns-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {string} input */
const embed = (args, input) => wisp(['embed', '-m', MODEL, ...args], input);

/** The vectors of texts, one by one. @param {string[]} texts */
const expected = (texts) =>
  texts.map((text) => JSON.parse(embed(['--format', 'json', '--text', text], '').out)[0]);

/** @param {string} out */
const objectsOf = (out) => out.trim().split('\n').map((line) => JSON.parse(line)); // prettier-ignore

test('a column is the text, and the others are kept', () => {
  const csv =
    '\ufeffid,title,"a ""b"""\r\n1,"one, two",x\r\n\r\n2,"said ""yes""\nand no",\r\n3,plain "text",ü\r\n';
  const { out, code, err } = embed(
    ['--input', 'csv', '--column', 'title', '--format', 'ndjson'],
    csv,
  );
  assert.equal(code, 0, err);
  const rows = objectsOf(out);
  const texts = ['one, two', 'said "yes"\nand no', 'plain "text"'];
  assert.deepEqual(
    rows.map(({ embedding }) => embedding),
    expected(texts),
  );
  assert.deepEqual(
    rows.map(({ id, title, 'a "b"': other }) => [id, title, other]),
    [['1', texts[0], 'x'], ['2', texts[1], ''], ['3', texts[2], 'ü']], // prettier-ignore
  );
  const tsv = 'text\tid\n"quoted" text\t1\nlast,one\t2';
  const tabs = objectsOf(embed(['--input', 'tsv', '--format', 'ndjson'], tsv).out);
  assert.deepEqual(
    tabs.map(({ embedding }) => embedding),
    expected(['"quoted" text', 'last,one']),
  );
});

test('each file has a header of its own, and a shard counts rows', () => {
  writeFileSync(join(folder, 'a.csv'), 'text,n\none,1\ntwo,2\n');
  writeFileSync(join(folder, 'b.csv'), 'n,text\n3,three\n');
  const files = [join(folder, 'a.csv'), join(folder, 'b.csv')];
  const all = embed(['--input', 'csv', '--format', 'json', ...files], '');
  assert.deepEqual(JSON.parse(all.out), expected(['one', 'two', 'three']));
  const output = join(folder, 'shard.ndjson');
  const shard = ['--format', 'ndjson', '--shard', '2/2', '--output', output];
  assert.equal(embed(['--input', 'csv', ...shard, ...files], '').code, 0);
  const tokens = wisp(['tokenize', '-m', MODEL, '--input', 'csv', ...files], '').out;
  assert.equal(tokens, wisp(['tokenize', '-m', MODEL], 'one\ntwo\nthree\n').out);
});

test('rows unlike the header, and headers without the column, are named', () => {
  const args = ['--input', 'csv', '--format', 'json'];
  for (const [csv, said] of /** @type {[string, RegExp][]} */ ([
    ['a,b\n1,2\n', /-: the header has no column "text": name one by --column: a, b/],
    ['text,b\none\n', /line 2: 1 values; the header has 2/],
    ['text,b\none,2\none,"2" x\n', /line 3: a quoted value does not end/],
    ['text,b\none,"2\n\n\n', /a quoted value does not end/],
    ['text,b\none,"a\nb"\ntwo\n', /line 4: 1 values; the header has 2/],
    ['"text,b\none', /line 1: a quoted name does not end/],
    ['text,text\none,two\n', /line 2, .*text.*twice/],
  ])) {
    const { code, err } = embed(args, csv);
    assert.match(err, said, csv);
    assert.equal(code, 4, csv);
  }
  assert.match(embed(['--input', 'xls'], '').err, /choose one of lines, ndjson, csv, tsv/);
  const member = embed(
    ['--input', 'ndjson', '--column', 'q', '--format', 'json'],
    '{"q": "one"}\n',
  );
  assert.deepEqual(JSON.parse(member.out), expected(['one']));
});

test('an index of rows finds them', () => {
  const index = join(folder, 'rows.index');
  const csv = 'id,text,year\nx,a cat sleeps,1999\ny,quantum physics,2001\n';
  const built = wisp(['index', 'build', '-m', MODEL, '--input', 'csv', index, '-'], csv);
  assert.equal(built.code, 0, built.err);
  const found = wisp(
    ['search', index, '-m', MODEL, '--top', '1', '--format', 'json', '--query', 'a cat sleeps'],
    '',
  );
  assert.equal(found.code, 0, found.err);
  assert.match(found.out, /"x"/);
  assert.match(found.out, /1999/);
});

test('a column without columns is refused, and --no-text leaves out the column that is the text', () => {
  const { code, err } = embed(['--column', 'text'], 'one\n');
  assert.equal(code, 2, err);
  assert.match(err, /^wisp: --column text: lines have no columns; --input csv, tsv or ndjson/);
  const index = join(folder, 'bare.index');
  const args = ['index', 'build', '-m', MODEL, '--input', 'csv', '--column', 'name', index, '-'];
  for (const [more, kept] of /** @type {[string[], object][]} */ ([
    [[], { name: 'a cat', year: '1999' }],
    [['--no-text'], { year: '1999' }],
  ])) {
    const built = wisp([...args, ...more], 'name,year\na cat,1999\n');
    assert.equal(built.code, 0, built.err);
    const [{ metadata }] = JSON.parse(wisp(['index', 'list', '--json', index], '').out);
    assert.deepEqual(metadata, kept);
  }
});
