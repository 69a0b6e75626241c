// SPDX-License-Identifier: Apache-2.0
// The option `portable`: the bits of tests/data/golden-portable.f32, which the native kernel sets have too
// (tests/unit/test_portable.c), in every engine, with every module.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Embedder } from '../../js/node.js';
import { serve } from '../../js/program/serve.js';
import { launch } from './browsers.mjs';
import {
  ADDON,
  DEFAULT_MODEL_PATH,
  ROOT,
  noAddon,
  noTool,
  onlyInAll,
  smallModel,
  wisp,
} from './support.mjs';

const TEXTS = 12;
const SMALL = ['cls12', 'mean-shards', 'prompted', 'nomic'];
const OF_ENCODERS = ['deberta-v3', 'deberta-v2']; // in the module that has all encoders

const texts = String(readFileSync(`${ROOT}tests/data/golden-default.jsonl`))
  .split('\n')
  .slice(0, TEXTS)
  .map((line) => /** @type {string} */ (JSON.parse(line).text));
const golden = readFileSync(`${ROOT}tests/data/golden-portable.f32`);
const expected = golden.subarray(0, TEXTS * 384 * 4).toString('hex');

/** @param {Float32Array} rows */
const hex = (rows) => Buffer.from(rows.buffer, rows.byteOffset, rows.byteLength).toString('hex');

/**
 * @param {string} program a Node
 * @param {string[]} flags
 */
function check(program, flags = []) {
  const file = `${ROOT}build/test-models/portable-texts.json`;
  mkdirSync(`${ROOT}build/test-models`, { recursive: true });
  writeFileSync(file, JSON.stringify(texts));
  const script = `${ROOT}tests/js/portable/embed.mjs`;
  const out = execFileSync(program, [...flags, script, file, DEFAULT_MODEL_PATH]);
  const lines = String(out)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.ok(lines.length >= 1);
  for (const { build, kernels, rows } of lines) {
    assert.ok(rows === expected, `${program} ${flags}, ${build}: other bits with ${kernels}`);
  }
}

test('Node', () => check(process.execPath));

for (const name of ['node22', 'node24']) {
  const program = `${ROOT}.tools/bin/${name}`;
  test(name, { skip: noTool(name) }, () => check(program));
}

const isX64 = process.arch === 'x64';
test('Node 24 without VNNI', { skip: noTool('node24') || (!isX64 && 'no x86 machine') }, () =>
  check(`${ROOT}.tools/bin/node24`, ['--no-enable-avx-vnni', '--no-enable-avx-vnni-int8']),
);

test('models of other shapes', async () => {
  let at = TEXTS * 384 * 4;
  const { pickBuild } = await import('../../js/calls/load.js');
  const wasm = new URL(`../../js/wisp-encoders-${pickBuild()}.wasm`, import.meta.url);
  for (const name of [...SMALL, ...OF_ENCODERS]) {
    const embedder = await Embedder.load(smallModel(name), {
      ...(OF_ENCODERS.includes(name) && { wasm }),
      portable: true,
      workers: 1,
      backend: 'wasm',
    });
    const rows = await embedder.embed(texts);
    await embedder.close();
    assert.equal(hex(rows), golden.subarray(at, at + rows.byteLength).toString('hex'), name);
    at += rows.byteLength;
  }
  assert.equal(at, golden.length);
});

test('the addon, on two threads', { skip: noAddon }, async () => {
  const embedder = await Embedder.load(undefined, {
    portable: true,
    workers: 2,
    backend: 'native',
    addon: ADDON,
  });
  const rows = await embedder.embed(texts);
  await embedder.close();
  assert.ok(hex(rows) === expected);
});

test('the program', () => {
  const args = ['embed', '--portable', '--format', 'f32', '--input', 'ndjson'];
  const { bytes, err } = wisp(args, texts.map((text) => JSON.stringify(text)).join('\n'));
  assert.ok(bytes.toString('hex') === expected, err);
});

test('floats and sparse layers are refused', async () => {
  for (const options of /** @type {const} */ ([{ compute: 'f32' }, { predictor: 'exact' }])) {
    const loading = Embedder.load(undefined, { portable: true, workers: 0, ...options });
    await assert.rejects(loading, { code: 'unsupported', field: 'portable' });
  }
});

for (const name of ['chromium', 'firefox']) {
  describe(name, { skip: noTool(name) || (name === 'firefox' && onlyInAll) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Awaited<ReturnType<typeof serve>>} */
    let site;
    before(async () => {
      site = await serve();
      tab = await launch[name]();
      await tab.open(`${site.origin}/tests/js/page/blank.html`);
    });
    after(async () => {
      await tab.close();
      await site.close();
    });

    test('every module', async () => {
      const results = await tab.call('embedPortable', texts);
      assert.ok(results.length >= 1);
      for (const { build, kernels, rows } of results) {
        assert.ok(
          Buffer.from(rows, 'base64').toString('hex') === expected,
          `${build}: other bits with ${kernels}`,
        );
      }
    });
  });
}
