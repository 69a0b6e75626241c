// SPDX-License-Identifier: Apache-2.0
// The published package: its size, and its use after installation.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { ROOT, noTool, onlyInAll } from './support.mjs';

const NAME = 'wisp-engine';

/** The most JavaScript a page may have to load, compressed as servers do. */
const MOST_BYTES = 25 * 1024;

test('the JavaScript of a page is at most 25 KB after brotli', () => {
  const reached = new Set(['browser.js', 'worker-browser.js']);
  for (const name of reached) {
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8');
    for (const [, found] of source.matchAll(/from '\.\/([^']+)'/g)) reached.add(found);
  }
  assert.ok(reached.has('engine.js') && reached.has('pool.js'));
  let bytes = 0;
  for (const name of reached) bytes += brotliCompressSync(readFileSync(`${ROOT}js/${name}`)).length;
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
});

test('nothing evaluates text, makes workers of blobs or names another host', () => {
  for (const name of readdirSync(`${ROOT}js`).filter((file) => /\.c?js$/.test(file))) {
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8').replace(/^\s*(\/\/|\*|\/\*).*$/gm, '');
    assert.doesNotMatch(source, /\beval\(|new Function|createObjectURL|https?:\/\//, name);
  }
});

const ESM = `
import { Embedder, Rows, WispError } from '${NAME}';
import { Engine } from '${NAME}/engine';
const embedder = await Embedder.load(undefined, { workers: 2 });
const rows = await embedder.embed(['a cat', 'a kitten', 'the stock market']);
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
if (!(dot(rows.row(0), rows.row(1)) > dot(rows.row(0), rows.row(2)) + 0.2)) throw new Error('far');
if (!(rows instanceof Rows) || typeof Engine.open !== 'function') throw new Error('exports');
const error = await Embedder.load('/nowhere').catch((reason) => reason);
if (!(error instanceof WispError) || error.code !== 'not_found') throw error;
for (const name of ['wisp-simd128.wasm', 'wisp-relaxed.wasm', 'wisp-default.gguf', 'worker'])
  import.meta.resolve('${NAME}/' + name);
await embedder.close();
console.log(rows.count, embedder.info().build);
`;

const CJS = `
const { Embedder, WispError } = require('${NAME}');
(async () => {
  const embedder = await Embedder.load(undefined, { workers: 1 });
  const rows = await embedder.embed(['a cat', 'a kitten', 'the stock market']);
  await embedder.close();
  const error = await Embedder.load('/nowhere').catch((reason) => reason);
  if (!(error instanceof WispError) || new Error('x') instanceof WispError) throw error;
  console.log(rows.count, embedder.info().build);
})();
`;

const TYPED = `
import { Embedder, WispError, type Rows } from '${NAME}';
const embedder: Embedder = await Embedder.load(new URL('file:///m.gguf'), { workers: 2 });
const rows: Rows = await embedder.embed(['x'], { dimensions: 3, signal: AbortSignal.timeout(9) });
export const row: Float32Array = rows.row(0);
export const code: 'format' | undefined = new WispError('format', 'x').code === 'format' ? 'format' : undefined;
// @ts-expect-error texts are strings
await embedder.embed([1]);
// @ts-expect-error there is no such option
await Embedder.load(undefined, { threads: 2 });
`;

describe('installed from npm pack into an empty project', () => {
  const folder = mkdtempSync(join(tmpdir(), 'wisp-package-'));
  after(() => rmSync(folder, { recursive: true }));
  // Not the environment of the make or npm that runs this test.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(npm_|MAKE|NODE_OPTIONS|NODE_TEST)/.test(name),
    ),
  );
  /** @param {string} program @param {string[]} args @param {string} [cwd] */
  const run = (program, args, cwd = folder) =>
    execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

  before(() => {
    const packed = JSON.parse(
      run('npm', ['pack', '--silent', '--json', '--pack-destination', folder], ROOT).replace(
        /^[^]*?(?=^\[)/m,
        '',
      ),
    );
    writeFileSync(join(folder, 'package.json'), '{}');
    run('npm', ['install', '--offline', '--no-audit', '--no-fund', `./${packed[0].filename}`]);
    writeFileSync(join(folder, 'try.mjs'), ESM);
    writeFileSync(join(folder, 'try.cjs'), CJS);
    writeFileSync(join(folder, 'try.mts'), TYPED);
  });

  test('it brings nothing along, and what it needs', () => {
    const installed = readdirSync(join(folder, 'node_modules')).filter((name) => name[0] !== '.');
    assert.deepEqual(installed, [NAME]);
    const root = join(folder, 'node_modules', NAME);
    const files = readdirSync(root, { recursive: true }).map(String);
    for (const name of ['LICENSE', 'NOTICE', 'README.md', 'types/node.d.ts', 'types/browser.d.ts'])
      assert.ok(files.includes(name), name);
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    assert.equal(manifest.dependencies, undefined);
    assert.equal(manifest.scripts.install ?? manifest.scripts.postinstall, undefined);
    for (const target of paths(manifest.exports))
      assert.ok(files.includes(target.slice(2)), target);
  });

  for (const program of [process.execPath, 'node22', 'node24']) {
    const own = program === process.execPath;
    const path = own ? program : `${ROOT}.tools/bin/${program}`;
    const name = own ? `node ${process.version}` : program;
    for (const script of ['try.mjs', 'try.cjs']) {
      test(`${script} in ${name}`, { skip: !own && (onlyInAll || noTool(program)) }, () => {
        assert.match(run(path, [script]), /^3 wisp .*wasm (simd128|relaxed)/);
      });
    }
  }

  test('its types, as TypeScript resolves them for Node and for bundlers', () => {
    const tsc = createRequire(import.meta.url).resolve('typescript/package.json');
    const bin = join(tsc, '..', JSON.parse(readFileSync(tsc, 'utf8')).bin.tsc);
    const common = [
      '--strict',
      '--noEmit',
      '--target',
      'es2022',
      '--lib',
      'es2022,dom,dom.iterable',
    ];
    for (const mode of [
      ['--module', 'nodenext'],
      ['--module', 'esnext', '--moduleResolution', 'bundler', '--customConditions', 'browser'],
    ]) {
      run(process.execPath, [bin, ...common, ...mode, '--types', '', 'try.mts']);
    }
  });
});

/**
 * All paths of an exports field.
 * @param {any} value
 * @returns {string[]}
 */
function paths(value) {
  return typeof value === 'string' ? [value] : Object.values(value).flatMap(paths);
}
