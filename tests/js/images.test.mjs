// SPDX-License-Identifier: Apache-2.0
// The program embeds files of images: what it computes is compared with transformers and Pillow
// (tests/oracle/make_images.py), by the tiny CLIP of tests/data/models.
import assert from 'node:assert/strict';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ROOT, floatsOf, wisp } from './support.mjs';

const IMAGES = `${ROOT}tests/data/images`;
const CLIP = ['--model', `${ROOT}tests/data/models/clip`];
const F32 = [...CLIP, '--compute', 'f32'];
/** @type {{ name: string, row: number[] }[]} */
const GOLDEN = JSON.parse(readFileSync(`${IMAGES}/golden.json`, 'utf8'));
const GOOD = GOLDEN.map(({ name }) => `${IMAGES}/good/${name}`);

const folder = mkdtempSync(join(tmpdir(), 'wisp-images-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} text */
const objectsOf = (text) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

/** @param {number[]} row @param {number[]} expected */
function assertNear(row, expected) {
  assert.equal(row.length, expected.length);
  const error = Math.hypot(...row.map((x, i) => x - expected[i]));
  assert.ok(error < 1e-5, `differs by ${error}`);
}

test('embeddings of files are those of transformers', () => {
  const run = wisp(['embed', ...F32, '--images', '--format', 'ndjson', ...GOOD]);
  assert.equal(run.code, 0, run.err);
  const objects = objectsOf(run.out);
  assert.deepEqual(
    objects.map(({ image }) => image),
    GOOD,
  );
  for (const [i, { embedding }] of objects.entries()) assertNear(embedding, GOLDEN[i].row);
});

test('a folder, paths of standard input and paths in records are images', () => {
  const own = join(folder, 'own');
  mkdirSync(join(own, 'deeper.png'), { recursive: true });
  for (const name of ['tall.jpg', 'rgb.png', 'grey.jpeg'])
    copyFileSync(`${IMAGES}/good/${name}`, join(own, name));
  symlinkSync(`${IMAGES}/good/wide.png`, join(own, 'WIDE.PNG'));
  rmSync(join(own, 'deeper.png'), { recursive: true });
  writeFileSync(join(own, 'notes.txt'), 'no image');
  const names = ['WIDE.PNG', 'grey.jpeg', 'rgb.png', 'tall.jpg'];
  const options = ['embed', ...F32, '--images', '--format', 'ndjson'];
  const rowOf = (/** @type {string} */ name) =>
    GOLDEN.find((golden) => golden.name === name.replace('WIDE.PNG', 'wide.png'))?.row ?? [];
  const whole = objectsOf(wisp([...options, own]).out);
  assert.deepEqual(
    whole.map(({ image }) => image),
    names.map((name) => join(own, name)),
  );
  for (const [i, { embedding }] of whole.entries()) assertNear(embedding, rowOf(names[i]));

  const lines = wisp(options, names.map((name) => `${join(own, name)}\n`).join('\n')); // with blank lines
  assert.equal(lines.code, 0, lines.err);
  assert.deepEqual(objectsOf(lines.out), whole);

  const records = names
    .map((name, id) => `${JSON.stringify({ id, file: join(own, name) })}\n`)
    .join('');
  const kept = wisp([...options, '--input', 'ndjson', '--column', 'file'], records);
  assert.equal(kept.code, 0, kept.err);
  assert.deepEqual(
    objectsOf(kept.out),
    whole.map((object, id) => ({ ...object, id, file: object.image })),
  );
});

test('the formats, fewer dimensions and shards', () => {
  const options = ['embed', ...F32, '--images'];
  const objects = objectsOf(wisp([...options, '--format', 'ndjson', ...GOOD]).out);
  const text = wisp([...options, ...GOOD])
    .out.trimEnd()
    .split('\n');
  assert.deepEqual(
    text.map((line) => line.split(' ').map(Number)),
    objects.map(({ embedding }) => embedding),
  );
  const json = JSON.parse(wisp([...options, '--format', 'json', ...GOOD]).out);
  assert.deepEqual(
    json,
    objects.map(({ embedding }) => embedding),
  );
  const file = join(folder, 'rows.npy');
  assert.equal(wisp([...options, '--format', 'npy', '--output', file, ...GOOD]).code, 0);
  const rows = floatsOf(readFileSync(file).subarray(128));
  assert.deepEqual(
    [...rows],
    objects.flatMap(({ embedding }) => embedding.map(Math.fround)),
  );
  const short = objectsOf(
    wisp([...options, '--format', 'ndjson', '--dimensions', '3', ...GOOD]).out,
  );
  for (const [i, { embedding }] of short.entries()) {
    const first = GOLDEN[i].row.slice(0, 3);
    assertNear(
      embedding,
      first.map((x) => x / Math.hypot(...first)),
    );
  }
  const shard = objectsOf(wisp([...options, '--format', 'ndjson', '--shard', '2/5', ...GOOD]).out);
  assert.deepEqual(
    shard,
    objects.filter((_, i) => i % 5 === 1),
  );
});

test('a bad image costs itself alone', () => {
  const bad = ['cut.jpg', 'text.png', 'bomb.png', 'none.png'].map(
    (name) => `${IMAGES}/bad/${name}`,
  );
  const files = [GOOD[0], bad[0], bad[1], GOOD[14], bad[2], bad[3]];
  const run = wisp(['embed', ...F32, '--images', '--format', 'ndjson', ...files]);
  assert.equal(run.code, 4);
  const objects = objectsOf(run.out);
  assert.deepEqual(
    objects.map(({ image }) => image),
    files,
  );
  assertNear(objects[0].embedding, GOLDEN[0].row);
  assertNear(objects[3].embedding, GOLDEN[14].row);
  assert.equal(objects[1].error, 'jpeg: truncated input');
  assert.equal(objects[2].error, 'not an image of PNG, JPEG, GIF, BMP or WebP');
  assert.match(objects[4].error, /^60000 x 60000 pixels: /);
  assert.match(objects[5].error, /^cannot open: /);
  for (const name of bad) assert.ok(run.err.includes(`wisp: ${name}: `));
  const text = wisp(['embed', ...F32, '--images', ...files])
    .out.trimEnd()
    .split('\n');
  assert.ok(text[1].split(' ').every((x) => x === 'nan'));
  const mixed = wisp(
    ['embed', ...F32, '--images', '--input', 'ndjson', '--format', 'ndjson'],
    `{"text": 1}\n"${GOOD[0]}"\n`,
  );
  assert.equal(mixed.code, 4);
  assert.deepEqual(
    objectsOf(mixed.out).map((object) => Object.keys(object)),
    [
      ['error', 'line'],
      ['image', 'embedding'],
    ],
  );
});

test('an interrupted run is continued', () => {
  const file = join(folder, 'resumed.ndjson');
  const options = ['embed', ...F32, '--images', '--format', 'ndjson', '--output', file, '--resume'];
  const files = [...GOOD, `${IMAGES}/bad/cut.png`];
  assert.equal(wisp([...options, ...files]).code, 4);
  const whole = readFileSync(file);
  const progress = JSON.parse(readFileSync(`${file}.progress`, 'utf8'));
  assert.equal(progress.rows, files.length);
  assert.equal(wisp([...options, ...files]).code, 0); // nothing is left to do
  assert.deepEqual(readFileSync(file), whole);
  const other = wisp([...options, ...files.slice().reverse()]);
  assert.equal(other.code, 4);
  assert.match(other.err, /are not those/);
});

test('images are found by texts and by images', () => {
  const index = join(folder, 'images.index');
  const built = wisp([
    'index',
    'build',
    index,
    ...CLIP,
    '--kind',
    'f32',
    '--images',
    `${IMAGES}/good`,
    `${IMAGES}/bad/cut.jpg`,
  ]);
  assert.equal(built.code, 4);
  assert.equal(built.out, `${GOOD.length} added\n`);
  assert.match(built.err, /1 images are malformed/);
  const listed = objectsOf(wisp(['index', 'list', index, '--format', 'ndjson']).out);
  assert.deepEqual(
    listed.map(({ id }) => id),
    GOOD.slice().sort(),
  );
  assert.deepEqual(listed[0].metadata, { text: listed[0].id });

  const found = objectsOf(
    wisp(['search', index, ...CLIP, '--query', 'a cat', '--top', '99', '--format', 'ndjson']).out,
  )[0];
  const near = JSON.parse(
    wisp([
      'similarity',
      ...CLIP,
      '--query',
      'a cat',
      '--top',
      '99',
      '--json',
      '--images',
      `${IMAGES}/good`,
    ]).out,
  );
  assert.deepEqual(
    found.matches.map((/** @type {any} */ match) => match.id),
    near.map((/** @type {any} */ match) => match.text),
  );
  for (const [i, { score }] of found.matches.entries())
    assert.ok(Math.abs(score - near[i].score) < 1e-5);

  const same = wisp([
    'search',
    index,
    ...CLIP,
    '--images',
    '--top',
    '1',
    '--format',
    'ndjson',
    GOOD[12],
    `${IMAGES}/bad/text.png`,
  ]);
  assert.equal(same.code, 4);
  const [match] = objectsOf(same.out);
  assert.deepEqual([match.query, match.matches[0].id], [GOOD[12], GOOD[12]]);
  assert.ok(match.matches[0].score > 0.9999);
  const again = wisp([
    'index',
    'build',
    index,
    ...CLIP,
    '--kind',
    'f32',
    '--resume',
    '--images',
    `${IMAGES}/good`,
  ]);
  assert.equal(again.out, '0 added\n');
  assert.equal(wisp(['index', 'remove', index, GOOD[12]]).out, '1 removed\n');
});

test('what cannot be is said', () => {
  const images = ['embed', ...CLIP, '--images', GOOD[0]];
  /** @type {[string[], number, RegExp, Record<string, string>?][]} */
  const cases = [
    [['embed', '--images', GOOD[0]], 3, /the model has no image tower/],
    [
      ['embed', '--model', `${ROOT}tests/data/models/clip-text`, '--images', GOOD[0]],
      3,
      /the model has no image tower/,
    ],
    [[...images, '--prompt', 'query'], 2, /--prompt: not with --images/],
    [[...images, '--stats'], 2, /--stats: not with --images/],
    [[...images, '--vector-cache', folder], 2, /--vector-cache: not with --images/],
    [['embed', ...CLIP, '--images', `${ROOT}docs/guides`], 4, /the folder has no images/],
    [['similarity', ...CLIP, '--images', '--pairs', GOOD[0]], 2, /--images goes without --pairs/],
    [
      ['index', 'build', join(folder, 'x'), ...CLIP, '--images', '--chunk', GOOD[0]],
      2,
      /without --chunk/,
    ],
    [
      images,
      3,
      /images need libwisp-images\.so, which make images builds/,
      { WISP_IMAGES_LIBRARY: '/none' },
    ],
    [
      images,
      3,
      /libwisp-images\.so is that of another version/,
      { WISP_IMAGES_LIBRARY: `${ROOT}build/libwisp.so` },
    ],
  ];
  for (const [args, code, message, env] of cases) {
    const run = wisp(args, '', env);
    assert.equal(run.code, code, `${args.join(' ')}: ${run.err}`);
    assert.match(run.err, message);
    assert.equal(run.out, '');
  }
});
