// SPDX-License-Identifier: Apache-2.0
// wisp index and wisp search.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { PROGRAM, ROOT, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-index-cli-'));
after(() => rmSync(folder, { recursive: true }));
const at = (/** @type {string} */ name) => join(folder, name);

/** @param {string[]} args @param {string} [input] */
function run(args, input) {
  const { out, code, err } = wisp(args, input);
  assert.equal(code, 0, err);
  return out;
}

/** @param {string[]} args @param {number} code @param {RegExp} says @param {string} [input] */
function refused(args, code, says, input) {
  const { out, code: got, err } = wisp(args, input);
  assert.equal(got, code, err);
  assert.match(err, says);
  return out;
}

/** @param {string} name */
const listed = (name) =>
  run(['index', 'list', '--format', 'ndjson', at(name)])
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

const TEXTS = ['A man is eating food.', 'A woman plays the violin.', 'The cat sleeps.'];

describe('building and changing', () => {
  test('lines have ids of file and number, and lines that come again replace', () => {
    writeFileSync(at('a.txt'), `${TEXTS[0]}\n${TEXTS[1]}\n`);
    assert.equal(run(['index', 'build', at('a.index'), at('a.txt'), '-'], TEXTS[2]), '3 added\n');
    const ids = [`${at('a.txt')}:1`, `${at('a.txt')}:2`, 'stdin:1'];
    assert.deepEqual(
      listed('a.index'),
      ids.map((id, i) => ({ id, metadata: { text: TEXTS[i] } })),
    );
    writeFileSync(at('a.txt'), 'Dogs bark.\n');
    run(['index', 'add', at('a.index'), at('a.txt')]);
    assert.deepEqual(
      listed('a.index').map(({ metadata }) => metadata.text),
      [TEXTS[1], TEXTS[2], 'Dogs bark.'],
    );
    assert.equal(run(['index', 'remove', at('a.index'), 'stdin:1', 'none']), '1 removed\n');
    assert.equal(
      run(['index', 'remove', at('a.index'), '-'], `${ids[0]}\n${ids[1]}\n`),
      '2 removed\n',
    );
    assert.equal(JSON.parse(run(['index', 'info', '--format', 'json', at('a.index')])).count, 0);
    assert.equal(run(['search', at('a.index'), '-q', 'x']), '');
    assert.equal(
      run(['search', at('a.index'), '-q', 'x', '--format', 'json']),
      '[{"query": "x", "matches": []}]\n',
    );
  });

  test('objects keep their members, and --no-text leaves texts out', () => {
    const input =
      '{"id": 7, "text": "one", "x": [1, 2]}\n"two"\n{"text": "three", "id": "é\\u0000"}\n';
    run(['index', 'build', at('o.index'), '--input', 'ndjson'], input);
    assert.deepEqual(listed('o.index'), [
      { id: '7', metadata: { text: 'one', x: [1, 2] } },
      { id: 'stdin:2', metadata: { text: 'two' } },
      { id: 'é\0', metadata: { text: 'three' } },
    ]);
    run(['index', 'build', at('o.index'), '--input', 'ndjson', '--no-text'], input);
    assert.deepEqual(
      listed('o.index').map(({ metadata }) => metadata),
      [{ x: [1, 2] }, {}, {}],
    );
  });

  test('--resume goes on after a kill with what the index has', async () => {
    const lines = Array.from({ length: 3000 }, (_, i) => `Text ${i} of ${i % 7} words and more.`);
    writeFileSync(at('r.txt'), lines.join('\n'));
    const args = ['index', 'build', at('r.index'), '--resume', at('r.txt')];
    const killed = spawn(PROGRAM, args, { stdio: 'ignore' });
    const ended = once(killed, 'exit');
    while (!readdirSync(folder).includes('r.index')) await setTimeout(5);
    killed.kill('SIGKILL');
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    const { count } = JSON.parse(run(['index', 'info', '--json', at('r.index')]));
    assert.ok(count > 0 && count < lines.length, `${count} were saved`);
    assert.equal(run(args), `${lines.length - count} added\n`);
    assert.equal(run(args), '0 added\n');
    run(['index', 'build', at('w.index'), at('r.txt')]);
    assert.deepEqual(listed('r.index'), listed('w.index'));
    refused([...args, '--kind', 'f32'], 3, /has the kind int8 and 384 dimensions/);
    refused(['index', 'add', at('r.index'), '--resume', at('r.txt')], 2, /belongs to index build/);
  });

  test('--resume embeds what has changed in the input', () => {
    const lines = ['one', 'two', 'Long words. '.repeat(300), 'Many of them. '.repeat(400), 'three'];
    const changed = ['new', 'two', lines[2].slice(0, -2400), `${lines[3]} More.`, lines[2]];
    for (const [i, each] of [lines, changed, changed].entries()) {
      writeFileSync(at('v.txt'), each.join('\n'));
      const added = run(['index', 'build', at('v.index'), '--resume', '--chunk', at('v.txt')]);
      assert.equal(added === '0 added\n', i === 2, added);
    }
    run(['index', 'build', at('whole.index'), '--chunk', at('v.txt')]);
    assert.deepEqual(new Set(listed('v.index')), new Set(listed('whole.index')));
  });
  test('--resume counts a divided text as there', () => {
    writeFileSync(at('d.txt'), `${'Many words in a line. '.repeat(200)}\nOne more.\n`);
    const args = ['index', 'build', at('d.index'), '--resume', '--chunk', at('d.txt')];
    assert.notEqual(run(args), '0 added\n');
    assert.equal(run(args), '0 added\n');
  });

  test('--vectors lists the embeddings', () => {
    run(['index', 'build', at('v.index'), '--kind', 'f32', '-'], TEXTS.join('\n'));
    const rows = run(['embed', '--format', 'json', '-'], TEXTS.join('\n'));
    for (const format of ['json', 'ndjson']) {
      const out = run(['index', 'list', at('v.index'), '--vectors', '--format', format]);
      /** @type {{ embedding: number[] }[]} */
      const all = JSON.parse(format === 'json' ? out : `[${out.trim().replaceAll('\n', ',')}]`);
      assert.deepEqual(
        all.map(({ embedding }) => embedding),
        JSON.parse(rows),
      );
    }
    refused(['index', 'list', at('v.index'), '--vectors'], 2, /--format ndjson or json/);
    refused(['index', 'build', at('v.index'), '--foo'], 2, /^wisp: unrecognized option '--foo'/);
  });

  test('kinds and dimensions', () => {
    const sizes = [[], ['--kind', 'f32'], ['--dimensions', '64']].map((options) => {
      run(['index', 'build', at('k.index'), ...options], TEXTS.join('\n'));
      assert.match(run(['search', at('k.index'), '-q', 'a pet', '-k', '1']), /The cat sleeps\.\n$/);
      return statSync(at('k.index')).size;
    });
    assert.equal(sizes[1] - sizes[0], 3 * 384 * 3 - 64); // there are no scales
    const info = JSON.parse(run(['index', 'info', '--format', 'json', at('k.index')]));
    assert.deepEqual([info.kind, info.dimensions, info.count, info.removed], ['int8', 64, 3, 0]);
  });

  test('what is malformed is named, and the old index stays', () => {
    run(['index', 'build', at('m.index')], TEXTS.join('\n'));
    const before = readFileSync(at('m.index'));
    refused(
      ['index', 'add', at('m.index'), '--input', 'ndjson'],
      4,
      /-: line 2: "id" is neither/,
      '"a"\n{"text":"b","id":[]}',
    );
    refused(
      ['index', 'add', at('m.index'), '--input', 'ndjson'],
      4,
      /-: line 1: neither a JSON string/,
      '{"id":1}',
    );
    refused(['index', 'build', at('m.index'), at('none.txt')], 1, /none\.txt: cannot open/);
    refused(['index', 'build', at('none/m.index')], 1, /none\/m\.index/, 'x');
    assert.deepEqual(readFileSync(at('m.index')), before);
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.endsWith('.tmp')),
      [],
    );
  });
});

test('--keep-going: a malformed line costs that line alone, and is named', () => {
  const lines = ['"a"', '{"text":"b","id":[]}', '{"id":1}', '[', '{"text":"c","id":7}'];
  const args = ['index', 'build', at('g.index'), '--input', 'ndjson', '--keep-going'];
  const { code, out, err } = wisp(args, lines.join('\n'));
  assert.equal(code, 4);
  assert.equal(out, '2 added\n');
  assert.match(err, /line 2: "id" is neither/);
  assert.match(err, /line 3: neither a JSON string/);
  assert.match(err, /line 4, column 2: /);
  assert.match(err, /3 lines are malformed, and not in the index/);
  assert.match(run(['index', 'list', at('g.index')]), /^stdin:1\ta\n7\tc\n$/);
  refused(['index', 'build', at('h.index'), ...args.slice(3)], 4, /no texts/, lines[3]);
  refused(['index', 'list', at('g.index'), '--keep-going'], 2, /belongs to index build and add/);
});

describe('searching', () => {
  run(['index', 'build', at('s.index')], TEXTS.join('\n'));

  test('lines and options are queries, in every format', () => {
    const queries = ['someone has a meal', 'a pet'];
    const text = run(['search', at('s.index'), '-k', '2'], queries.join('\n'));
    const blocks = text
      .trimEnd()
      .split('\n\n')
      .map((block) => block.split('\n').map((line) => line.split('\t')));
    assert.deepEqual(
      blocks.map((block) => block.length),
      [2, 2],
    );
    assert.deepEqual(
      blocks.map(([[, id, found]]) => [id, found]),
      [
        ['stdin:1', TEXTS[0]],
        ['stdin:3', TEXTS[2]],
      ],
    );
    const args = ['search', at('s.index'), '-k', '2', '-q', queries[0], '--query', queries[1]];
    const json = JSON.parse(run([...args, '--format', 'json']));
    assert.deepEqual(
      json.map((/** @type {any} */ { query }) => query),
      queries,
    );
    const ndjson = run([...args, '--format', 'ndjson'])
      .trim()
      .split('\n');
    assert.deepEqual(
      ndjson.map((line) => JSON.parse(line)),
      json,
    );
    for (const [i, { matches }] of json.entries()) {
      assert.deepEqual(
        matches.map((/** @type {any} */ match) => [
          match.score.toFixed(4),
          match.id,
          match.metadata.text,
        ]),
        blocks[i],
      );
    }
    for (const threads of ['1', '3'])
      assert.equal(
        run([...args, '-t', threads, '--format', 'json']),
        run([...args, '--format', 'json']),
      );
  });

  test('what cannot be searched', () => {
    const other = `${ROOT}tests/data/models/prompted`;
    refused(['search', at('s.index'), '-m', other, '-q', 'x'], 2, /model/);
    refused(['search', `${ROOT}models/wisp-stories.gguf`, '-q', 'x'], 3, /is not an index/);
    refused(['search', at('none.index'), '-q', 'x'], 3, /none\.index/);
    refused(['search'], 2, /no index is given/);
    refused(['search', at('s.index'), '--top', '0'], 2, /--top 0/);
    refused(['search', at('s.index'), '--format', 'npy'], 2, /choose one of text, json, ndjson/);
    refused(['index'], 2, /one of build, add, remove, list and info/);
    refused(['index', 'remove', at('s.index')], 2, /no ids are given/);
    refused(['index', 'info', at('s.index'), 'x'], 2, /expected one index/);
    refused(['index', 'build'], 2, /no index is given/);
    refused(['index', 'build', at('x.index'), '--kind', 'int4'], 2, /choose one of int8, f32/);
  });

  test('help', () => {
    for (const args of [
      ['index', '--help'],
      ['index', 'add', '--help'],
      ['search', '--help'],
    ]) {
      assert.match(run(args), /^usage: wisp (index build INDEX|search INDEX)/);
    }
  });
});
