// SPDX-License-Identifier: Apache-2.0
// The published package: its size, and its use after installation.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { environments } from '../compat/environments.mjs';
import { ROOT, noTool, onlyInAll } from './support.mjs';

const NAME = 'wisp-engine';

/** The most JavaScript a page may have to load, compressed as servers do. */
const MOST_BYTES = 32 * 1024;

/**
 * The scripts that a page loads, and their bytes after brotli.
 * @param {string[]} entries
 */
function scriptsOf(...entries) {
  const reached = new Set(entries);
  for (const name of reached) {
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8');
    for (const [, found] of source.matchAll(/from '\.\/([^']+)'/g)) reached.add(found);
  }
  let bytes = 0;
  for (const name of reached) bytes += brotliCompressSync(readFileSync(`${ROOT}js/${name}`)).length;
  return { reached, bytes };
}

test('the JavaScript of a page is at most 32 KB after brotli', () => {
  const { reached, bytes } = scriptsOf('browser.js', 'worker-browser.js');
  assert.ok(reached.has('engine.js') && reached.has('pool.js'));
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
});

test('a page that embeds loads nothing of the generator, whose page has 43 KB', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const { reached, bytes } = scriptsOf('generate-browser.js', 'generate-worker-browser.js');
  for (const name of ['generator.js', 'text-engine.js', 'text-worker.js', 'write-job.js']) {
    assert.ok(reached.has(name) && !embedding.has(name), name);
  }
  assert.ok(bytes <= 43 * 1024, `${bytes} bytes`);
});

test('modules that only embed have no decoders: at most 81 KB after brotli, the others 148', () => {
  for (const build of ['simd128', 'relaxed']) {
    const size = (/** @type {string} */ name) =>
      brotliCompressSync(readFileSync(`${ROOT}js/${name}-${build}.wasm`)).length;
    assert.ok(size('wisp') <= 81_000, `${build}: ${size('wisp')} bytes`);
    for (const name of ['wisp-generate', 'wisp-threads'])
      assert.ok(size(name) <= 148_000, `${name}-${build}: ${size(name)} bytes`);
  }
});

test('every Worker is made of an address in the expression, as bundlers expect it', () => {
  for (const file of ['embedding-node', 'browser', 'generate-node', 'generate-browser'].map(
    (name) => `${name}.js`,
  )) {
    const source = readFileSync(`${ROOT}js/${file}`, 'utf8');
    assert.match(
      source,
      /new Worker\(new URL\('\.\/(generate-)?worker-\w+\.js', import\.meta\.url\), (\{|WORKER_OPTIONS)/,
      file,
    );
    // Next.js' Turbopack fails at an address of a script that is the default of a parameter.
    assert.doesNotMatch(source, /\w+ = new URL\('\.\/(generate-)?worker/, file);
  }
});

test('nothing evaluates text, makes workers of blobs for its own origin or names another host', () => {
  for (const name of readdirSync(`${ROOT}js`).filter((file) => /\.c?js$/.test(file))) {
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8').replace(/^\s*(\/\/|\*|\/\*).*$/gm, '');
    assert.doesNotMatch(source, /\beval\(|new Function|https?:\/\//, name);
    if (name !== 'web-worker.js') assert.doesNotMatch(source, /createObjectURL/, name);
  }
});

test('docs/compat.md has a row for each environment of make compat, and tables name tests', () => {
  const text = readFileSync(`${ROOT}docs/compat.md`, 'utf8');
  const rows = [...text.matchAll(/tests\/compat `([^`]+)`/g)].map(([, name]) => name);
  assert.deepEqual(rows.sort(), Object.keys(environments).sort());
  for (const page of ['compat', 'why']) {
    const cells = readFileSync(`${ROOT}docs/${page}.md`, 'utf8').matchAll(/tests\/[\w/.]+\.\w+/g);
    for (const [name] of cells) assert.ok(existsSync(`${ROOT}${name}`), `${page}: ${name}`);
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
const { Generator } = await import('${NAME}/generate');
const generator = await Generator.load();
const text = await generator.generate('Once upon a time', { maxTokens: 8 }).text();
if (!text.startsWith(', there was')) throw new Error(text);
for (const name of ['wisp-generate-simd128.wasm', 'wisp-threads-relaxed.wasm', 'wisp-stories.gguf', 'generate/worker'])
  import.meta.resolve('${NAME}/' + name);
await generator.close();
console.log(rows.count, embedder.info().build);
`;

const CJS = `
const { Embedder, Rows, WispError } = require('${NAME}');
(async () => {
  const embedder = await Embedder.load(undefined, { workers: 1 });
  const rows = await embedder.embed(['a cat', 'a kitten', 'the stock market']);
  if (!(embedder instanceof Embedder) || !(rows instanceof Rows) || {} instanceof Rows) throw rows;
  await embedder.close();
  const error = await Embedder.load('/nowhere').catch((reason) => reason);
  if (!(error instanceof WispError) || new Error('x') instanceof WispError) throw error;
  const generate = require('${NAME}/generate');
  const generator = await generate.Generator.load();
  if (!(generator instanceof generate.Generator) || embedder instanceof generate.Generator) throw 1;
  const text = await generator.generate('Once upon a time', { maxTokens: 8 }).text();
  if (!text.startsWith(', there was')) throw new Error(text);
  console.log(rows.count, embedder.info().build);
})();
`;

/** @param {string} more names of types */
const typed = (more = '') => `
import { Embedder, Rows, WispError } from '${NAME}';
import { Generator, WispError as AlsoWispError } from '${NAME}/generate';
import type { GenerateOptions, GenerationResult, Token } from '${NAME}/generate';
import type { EmbedCallOptions, LoadOptions, LoadProgress, ModelSource, WispErrorCode } from '${NAME}';
export async function rowsOf(texts: string[], options: LoadOptions = {}): Promise<Float32Array[]> {
  await using embedder: Embedder = await Embedder.load('m.gguf', options);
  const rows: Rows = await embedder.embed(texts, { dimensions: 3 } satisfies EmbedCallOptions);
  const row: Float32Array = rows.row(0);
  return [row, ...rows];
}
export function codeOf(error: unknown): WispErrorCode | undefined {
  return error instanceof WispError ? error.code : undefined;
}
export const isEmbedder = (value: unknown): value is Embedder => value instanceof Embedder;
export const show = ({ phase }: LoadProgress, source: ModelSource) => [phase, source];
export async function write(options: GenerateOptions = {}): Promise<GenerationResult> {
  await using generator: Generator = await Generator.load('m.gguf', { workers: 1 });
  const writing = generator.generate('x', { ...options, stop: ['a'], logitBias: { 2: -Infinity } });
  for await (const piece of writing) piece.toUpperCase();
  for await (const { id, text } of writing.tokens()) [id.toFixed(), text.length];
  const ids: Int32Array = await generator.tokenize('x');
  (await generator.detokenize(ids)).length + (await generator.logits([1, 2])).length;
  return writing.result();
}
export const tokenOf = ({ likely }: Token) => likely?.[0].logprob;
export const same = (error: AlsoWispError): WispError => error;
// @ts-expect-error there is no such option
export const wrongText = (generator: Generator) => generator.generate('x', { length: 2 });
// @ts-expect-error texts are strings
export const wrongTexts = (embedder: Embedder) => embedder.embed([1]);
// @ts-expect-error there is no such option
export const wrongOption = () => Embedder.load(undefined, { threads: 2 });
${more}
`;
const TYPED_ESM = `
import '${NAME}/worker';
import { Engine } from '${NAME}/engine';
export const open: typeof Engine.open = Engine.open;
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
    writeFileSync(join(folder, 'try.mts'), typed(TYPED_ESM));
    writeFileSync(join(folder, 'try.cts'), typed());
  });

  test('it brings nothing along, and what it needs', () => {
    const installed = readdirSync(join(folder, 'node_modules')).filter((name) => name[0] !== '.');
    assert.deepEqual(installed, [NAME]);
    const root = join(folder, 'node_modules', NAME);
    const files = readdirSync(root, { recursive: true }).map(String);
    for (const name of [
      'LICENSE',
      'NOTICE',
      'types/index.d.ts',
      'types/index.d.cts',
      'types/engine.d.ts',
      'types/generate.d.ts',
      'types/generate.d.cts',
    ])
      assert.ok(files.includes(name), name);
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    assert.equal(manifest.dependencies, undefined);
    assert.equal(manifest.scripts.install ?? manifest.scripts.postinstall, undefined);
    for (const target of paths(manifest.exports))
      assert.ok(files.includes(target.slice(2)), target);
    assert.ok(manifest.keywords.includes('embeddings'));
    for (const page of files.filter((name) => name.endsWith('.md'))) {
      const text = readFileSync(join(root, page), 'utf8');
      for (const [, link, image] of text.matchAll(/\]\(([^)#]+)[^)]*\)|src="([^"]+)"/g)) {
        const target = link ?? image;
        if (!/^https?:/.test(target))
          assert.ok(files.includes(join(page, '..', target)), `${page}: ${target}`);
      }
    }
  });

  test('the hashes that it publishes are those of its files', async () => {
    const root = join(folder, 'node_modules', NAME);
    const hashes = JSON.parse(readFileSync(join(root, 'integrity.json'), 'utf8'));
    const { Embedder } = await import(pathToFileURL(join(root, 'js/node.js')).href);
    const model = hashes['wisp-default.gguf'];
    const wasm = join(root, 'js/wisp-simd128.wasm');
    const integrity = { model, wasm: hashes['wisp-simd128.wasm'] };
    await (await Embedder.load(undefined, { workers: 1, wasm, integrity })).close();
    const { Generator } = await import(pathToFileURL(join(root, 'js/generate-node.js')).href);
    const generator = await Generator.load(undefined, {
      wasm: join(root, 'js/wisp-threads-simd128.wasm'),
      integrity: {
        model: hashes['wisp-stories.gguf'],
        wasm: hashes['wisp-threads-simd128.wasm'],
      },
    });
    await generator.close();
    await assert.rejects(Generator.load(undefined, { integrity }), { field: 'integrity' });
    await assert.rejects(Embedder.load(undefined, { integrity: { model: integrity.wasm } }), {
      code: 'format',
      field: 'integrity',
    });
    await assert.rejects(Embedder.load(undefined, { wasm, integrity: { wasm: model } }), {
      code: 'format',
      field: 'integrity',
    });
    await assert.rejects(Embedder.load(undefined, { integrity: { model: 'md5-x' } }), {
      code: 'argument',
    });
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
    const common = ['--strict', '--noEmit', '--target', 'es2022', '--types', ''];
    for (const mode of [
      ['--module', 'nodenext', '--lib', 'es2022,dom', 'try.mts', 'try.cts'],
      ['--module', 'nodenext', '--lib', 'es2022', 'try.mts', 'try.cts'], // without the DOM
      ['--module', 'esnext', '--moduleResolution', 'bundler', '--customConditions', 'browser', 'try.mts'], // prettier-ignore
    ]) {
      run(process.execPath, [bin, ...common, ...mode]);
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
