// SPDX-License-Identifier: Apache-2.0
// The published package: what its scripts hold, and its use after installation. sizes.test.mjs measures it.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { TARGETS, optionalDependencies } from '../../tools/addons.mjs';
import { launch } from './browsers.mjs';
import { scriptsOf, shipped, writePackage } from './shipped.mjs';
import {
  ADDON,
  PROGRAM,
  ROOT,
  noAddon,
  noTool,
  onlyInAll,
  smallCalibratedModel,
  wisp,
} from './support.mjs';

const NAME = 'wisp-engine';

test('every Worker is made of an address in the expression, as bundlers expect it', () => {
  const kinds = ['generate', 'rerank', 'convert', 'cold', 'threads'];
  const entries = kinds.flatMap((kind) => [`${kind}-node`, `${kind}-browser`]);
  for (const name of ['embedding-node', 'browser', ...entries]) {
    const source = String(shipped.get(`${name}.js`));
    const script = `"\\./(${kinds.join('-|')}-)?worker-\\w+\\.js"`;
    const made = `new Worker\\(new URL\\(${script},import\\.meta\\.url\\),\\{(type:"module"|name:"wisp",execArgv:\\[\\]\\})`;
    assert.match(source, new RegExp(made), name);
    // Next.js' Turbopack fails at an address of a script that is the default of a parameter.
    assert.doesNotMatch(source, new RegExp(`\\w+=new URL\\(${script}`), name);
  }
});

test('what programs of Node import resolves no names, which Turbopack would do when it builds', () => {
  const { reached } = scriptsOf('node.js', 'generate-node.js', 'hub-node.js', 'index-node.js');
  assert.ok(reached.has('native/addon-node.js') && !reached.has('program/cli-program.js'));
  for (const name of reached)
    assert.doesNotMatch(String(shipped.get(name)), /\(import\.meta\.url\)\.resolve\(/, name);
});

/**
 * The modules, files, exports and names of functions that a script has.
 * @param {string} source
 */
function formOf(source) {
  const text = source.replace(/^\s*(\/\/|\*|\/\*).*$|\/\*\* @type.*?\*\//gm, '');
  const all = (/** @type {RegExp} */ form) =>
    [...text.matchAll(form)].map(([, ...of]) => of.join());
  return {
    modules: all(/(?:\bfrom|\bimport\(|^import|\brequire\()\s*['"]([\w./:@-]+)['"]/gm),
    files: all(/new URL\(\s*['"]([^'"]+)['"],\s*(import\.meta\.url)/g),
    workers: all(/new (Worker)\(\s*new URL\(['"]([^'"]+)/g),
    exports: all(/\bexport\s+(?:default\s+)?(?:async\s+)?(?:function\*?|class)\s*\b(\w+)/g),
    classes: all(/\bclass (\w+)/g),
    functions: all(/^(?:export )?(?:async )?function\*?\s*\b(\w+)/gm).filter(
      (name) => !/^_/.test(name),
    ),
  };
}

test('minified scripts keep what bundlers, Node and stack traces know them by, and the license', () => {
  for (const [name, code] of shipped) {
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8');
    const [expected, found] = [formOf(source), formOf(code)];
    assert.deepEqual({ ...found, functions: [] }, { ...expected, functions: [] }, name);
    for (const each of expected.functions) assert.match(code, new RegExp(`\\b${each}\\b`), name);
    assert.match(
      code,
      /^(#!\/usr\/bin\/env node\n)?\/\/ SPDX-License-Identifier: Apache-2\.0\n/,
      name,
    );
    assert.ok(code.length < source.length, name);
  }
});

test('nothing evaluates text, makes workers of blobs for its own origin, or names a host but the Hub and this machine', () => {
  for (const [name, source] of shipped) {
    const known = /** @type {Record<string, string>} */ ({
      'hub/hub.js': '"https://huggingface.co"',
      'program/serve.js': '`http://127.0.0.1:',
      'program/cli-serve.js': ' at http://${',
    });
    const others = source.replace(known[name], '');
    assert.doesNotMatch(others, /\beval\(|new Function|https?:\/\//, name);
    if (name !== 'platform/web-worker.js') assert.doesNotMatch(source, /createObjectURL/, name);
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
for (const name of ['wisp-simd128.wasm', 'wisp-relaxed.wasm', 'wisp-embed-threads-relaxed.wasm', 'wisp-default.gguf', 'worker', 'threads/worker'])
  import.meta.resolve('${NAME}/' + name);
const { chunk, embedStream } = await import('${NAME}/text');
const { search, similarity } = await import('${NAME}/search');
const [{ text: first }] = await chunk(embedder, 'a cat');
for await (const { item, row } of embedStream(embedder, [first, 'stocks'])) {
  const [{ index }] = await search(embedder, row, { rows, k: 1 });
  if (index !== (item === first ? 0 : 2)) throw new Error(item);
}
if ((await similarity(embedder, 'a cat', rows.row(0))) < 0.999) throw new Error('similarity');
await embedder.close();
const { fromHub } = await import('${NAME}/hub');
const unnamed = await fromHub('x').catch((reason) => reason);
if (!(unnamed instanceof WispError) || unnamed.code !== 'argument') throw unnamed;
const { Generator } = await import('${NAME}/generate');
const generator = await Generator.load();
const text = await generator.generate('Once upon a time', { maxTokens: 8 }).text();
if (!text.startsWith(', there was')) throw new Error(text);
for (const name of ['wisp-generate-simd128.wasm', 'wisp-threads-relaxed.wasm', 'wisp-languages.wasm', 'wisp-stories.gguf', 'generate/worker'])
  import.meta.resolve('${NAME}/' + name);
await generator.close();
const { Index } = await import('${NAME}/index');
const index = await Index.create({ dimensions: 2 });
await index.add({ id: 'a', vector: [1, 0] });
if ((await index.search([1, 0]))[0].id !== 'a') throw new Error('index');
const { WispEmbeddings } = await import('${NAME}/langchain');
const { embeddingModel } = await import('${NAME}/ai');
const { pipeline } = await import('${NAME}/pipeline');
const fake = { embed() {}, info: () => ({ name: 'a' }) };
if (embeddingModel(fake).modelId !== 'a' || !new WispEmbeddings(fake)) throw new Error('adapters');
const { convert } = await import('${NAME}/convert');
const model = process.env.TINY_MODEL;
const bytes = await convert(model, { type: 'q8_0' });
for (const source of [bytes, model]) {
  const tiny = await Embedder.load(source, { workers: 1 });
  if ((await tiny.embed('a')).length !== tiny.dimensions) throw new Error('converted');
  await tiny.close();
}
for (const name of ['wisp-convert.wasm', 'convert/worker']) import.meta.resolve('${NAME}/' + name);
const task = await pipeline('x').catch((reason) => reason);
if (!(task instanceof WispError) || task.field !== 'task') throw task;
console.log(rows.count, embedder.info().build);
`;

const CJS = `
const { Embedder, Rows, WispError } = require('${NAME}');
(async () => {
  const embedder = await Embedder.load(undefined, { workers: 1 });
  const rows = await embedder.embed(['a cat', 'a kitten', 'the stock market']);
  if (!(embedder instanceof Embedder) || !(rows instanceof Rows) || {} instanceof Rows) throw rows;
  const texts = require('${NAME}/text');
  const { search, similarity } = require('${NAME}/search');
  if ((await texts.chunk(embedder, 'a cat'))[0].end !== 5) throw new Error('chunk');
  for await (const { index, row } of texts.embedStream(embedder, ['a cat', 'a kitten'])) {
    if ((await search(embedder, row, { rows, k: 1 }))[0].index !== index) throw new Error('search');
  }
  const wrong = await texts.embedStream(embedder, 7).next().catch((reason) => reason);
  if (!(wrong instanceof texts.WispError) || wrong.field !== 'source') throw wrong;
  if ((await similarity(embedder, 'a cat', 'a cat')) < 0.999) throw new Error('similarity');
  await embedder.close();
  const error = await Embedder.load('/nowhere').catch((reason) => reason);
  if (!(error instanceof WispError) || new Error('x') instanceof WispError) throw error;
  const unnamed = await require('${NAME}/hub').fromHub('x').catch((reason) => reason);
  if (!(unnamed instanceof WispError) || unnamed.code !== 'argument') throw unnamed;
  const generate = require('${NAME}/generate');
  const generator = await generate.Generator.load();
  if (!(generator instanceof generate.Generator) || embedder instanceof generate.Generator) throw 1;
  const text = await generator.generate('Once upon a time', { maxTokens: 8 }).text();
  if (!text.startsWith(', there was')) throw new Error(text);
  const { Index } = require('${NAME}/index');
  const index = await Index.create({ dimensions: 2 });
  if (!(index instanceof Index) || index.size !== 0) throw index;
  const { WispEmbeddings } = require('${NAME}/langchain');
  const { embeddingModel } = require('${NAME}/ai');
  const fake = { embed() {}, info: () => ({ name: 'a' }) };
  if (embeddingModel(fake).modelId !== 'a' || !new WispEmbeddings(fake)) throw new Error('adapters');
  const { convert } = require('${NAME}/convert');
  const missing = await convert('/nowhere').catch((reason) => reason);
  if (!(missing instanceof WispError) || missing.code !== 'not_found') throw missing;
  const task = await require('${NAME}/pipeline').pipeline('x').catch((reason) => reason);
  if (!(task instanceof WispError) || task.field !== 'task') throw task;
  console.log(rows.count, embedder.info().build);
})();
`;

/** @param {string} more names of types */
const typed = (more = '') => `
import { Embedder, Rows, WispError } from '${NAME}';
import { Generator, WispError as AlsoWispError } from '${NAME}/generate';
import { cache, type KeptModel } from '${NAME}/cold';
import { deleteCached, fromHub, listCached, type HubOptions } from '${NAME}/hub';
import { search, similarity, type Match } from '${NAME}/search';
import { chunk, embedStream, type Chunk } from '${NAME}/text';
import type { GenerateOptions, GenerationResult, Token } from '${NAME}/generate';
import { Index, type IndexMatch } from '${NAME}/index';
import { convert, type ConvertOptions } from '${NAME}/convert';
import { embeddingModel } from '${NAME}/ai';
import { WispEmbeddings } from '${NAME}/langchain';
import { pipeline, type Tensor } from '${NAME}/pipeline';
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
export async function onTexts(embedder: Embedder, lines: AsyncIterable<string>): Promise<Match[]> {
  const { length } = await embedder.countTokens(['a'], { priority: 'high' });
  const chunks: Chunk[] = await chunk(embedder, 'a', { tokens: length, overlap: 1, locale: 'de' });
  for await (const { item, row } of embedStream(embedder, lines, { ahead: 9 })) [item.length, row.length];
  for await (const { item } of embedStream(embedder, chunks, { field: 'text' })) item.start.toFixed();
  const count: number = await embedder.countTokens('a');
  const score: number = await similarity(null, [1], new Float32Array(count));
  return search(embedder, 'a', { rows: await embedder.embed(['a']), k: score });
}
export const kept = ({ rows, finished }: WispError) => finished?.map((i) => rows?.row(i));
// @ts-expect-error objects need the option field
export const wrongStream = (embedder: Embedder) => embedStream(embedder, [{ text: 'a' }]);
export async function nearest(embedder: Embedder): Promise<IndexMatch[]> {
  const index: Index = await Index.create(embedder, { kind: 'int8' });
  await index.add({ id: 'a', text: 'x', metadata: { page: 1 } });
  return index.search(new Float32Array(index.dimensions), { k: 3 });
}
export async function adapted(embedder: Embedder, signal: any): Promise<number[][]> {
  const model = embeddingModel(embedder, { prompt: 'query' });
  const version: 'v4' = model.specificationVersion;
  const { embeddings } = await model.doEmbed({ values: [version], abortSignal: signal });
  const vector: number[] = await new WispEmbeddings(embedder, { dimensions: 3 }).embedQuery('a');
  const extract = await pipeline('feature-extraction', 'hf:o/m', { workers: 1 });
  const tensor: Tensor = await extract(['a'], { pooling: 'mean', normalize: true });
  return [...embeddings, vector, tensor.dims, tensor.tolist()[0]];
}
export async function converted(options: ConvertOptions): Promise<Embedder> {
  const model: ModelSource = await convert('hf:o/m', { ...options, type: 'q8_0' });
  return Embedder.load(await convert({ 'config.json': model, '1_Pooling/config.json': model }));
}
// @ts-expect-error there is no such type
export const wrongType = () => convert('folder', { type: 'q9' });
// @ts-expect-error there is no such task
export const wrongTask = () => pipeline('summarization');
export const tokenOf = ({ likely }: Token) => likely?.[0].logprob;
export const same = (error: AlsoWispError): WispError => error;
export async function named(options: HubOptions): Promise<number> {
  const source: ModelSource = await fromHub('o/m', { ...options, offline: true });
  await Embedder.load(source);
  const [{ name }] = await listCached();
  return deleteCached(name);
}
export async function ranged(url: string): Promise<KeptModel | undefined> {
  const cold = { mode: 'wait', complete: false, immutable: true } as const;
  const embedder = await Embedder.load(url, { cold });
  const { presentBytes, store } = embedder.stats().cold!;
  if (store === 'none' || presentBytes > 9) await cache.delete(url);
  return (await cache.list()).find(({ complete }) => complete);
}
// @ts-expect-error there is no such option
export const wrongText = (generator: Generator) => generator.generate('x', { length: 2 });
// @ts-expect-error texts are strings
export const wrongTexts = (embedder: Embedder) => embedder.embed([1]);
// @ts-expect-error a generator needs its whole model
export const wrongCold = () => Generator.load(undefined, { cold: 'wait' });
// @ts-expect-error a generator needs its whole model
export const wrongMemory = () => Generator.load(undefined, { memory: 1e6 });
// @ts-expect-error texts that are generated have no portable bits
export const wrongBits = () => Generator.load(undefined, { portable: true });
// @ts-expect-error there is no such option
export const wrongOption = () => Embedder.load(undefined, { thread: 2 });
${more}
`;
const TYPED_ESM = `
import '${NAME}/worker';
import { Engine } from '${NAME}/engine';
export const open: typeof Engine.open = Engine.open;
`;

test('npm packs the folder that make package writes, and not the checkout', () => {
  const { status, stderr } = spawnSync('npm', ['pack', '--dry-run'], { cwd: ROOT });
  assert.equal(status, 1);
  assert.match(String(stderr), /make package writes the package to build\/npm/);
});

describe('installed from npm pack into an empty project', () => {
  const folder = mkdtempSync(join(tmpdir(), 'wisp-package-'));
  after(() => rmSync(folder, { recursive: true }));
  // Not the environment of the make or npm that runs this test.
  const clean = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|MAKE|NODE_OPTIONS|NODE_TEST)/.test(name),
  );
  const env = { ...Object.fromEntries(clean), TINY_MODEL: `${ROOT}tests/data/models/cls12` };
  /** @param {string} program @param {string[]} args @param {string} [cwd] */
  const run = (program, args, cwd = folder) =>
    execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

  /** @param {string} cwd @returns {string} the archive's name in the folder */
  const pack = (cwd) => {
    const args = ['pack', '--silent', '--json', '--pack-destination', folder];
    return JSON.parse(run('npm', args, cwd).replace(/^[^]*?(?=^\[)/m, ''))[0].filename;
  };
  const install = ['install', '--offline', '--no-audit', '--no-fund'];
  let archive = '';

  before(() => {
    writePackage(join(folder, 'npm'));
    archive = pack(join(folder, 'npm'));
    writeFileSync(join(folder, 'package.json'), '{}');
    run('npm', [...install, `./${archive}`]);
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
      'types/hub.d.cts',
      'types/cold.d.cts',
      'types/convert.d.cts',
      'js/wisp-languages.wasm',
      'js/wisp-convert.wasm',
      'js/wisp-program.wasm',
      'js/wisp-udf-relaxed.wasm',
      'types/text.d.cts',
      'types/search.d.cts',
      'types/langchain.d.cts',
      'types/ai.d.cts',
      'types/pipeline.d.cts',
      'web-demo/index.html',
      'web-demo/demo.js',
    ])
      assert.ok(files.includes(name), name);
    for (const page of ['README.md', ...files.filter((name) => /^docs\/.*\.md$/.test(name))]) {
      const text = readFileSync(join(root, page), 'utf8');
      for (const [, to] of text.matchAll(/\]\((?!https?:)([^)\s#]+)[^)\s]*\)/g))
        assert.ok(existsSync(join(root, dirname(page), to)), `${page}: ${to}`);
    }
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    assert.equal(manifest.dependencies, undefined);
    assert.equal(manifest.scripts ?? manifest.devDependencies, undefined);
    for (const [name, code] of shipped)
      assert.equal(readFileSync(join(root, 'js', name), 'utf8'), code, name);
    for (const target of paths(manifest.exports))
      assert.ok(files.includes(target.slice(2)), target);
    assert.ok(manifest.keywords.includes('embeddings'));
    for (const page of files.filter((name) => name.endsWith('.md'))) {
      const text = readFileSync(join(root, page), 'utf8');
      for (const [, link, image] of text.matchAll(/\]\(([^)#]+)[^)]*\)|<img\s+src="([^"]+)"/g)) {
        const target = link ?? image;
        if (!/^https?:/.test(target))
          assert.ok(files.includes(join(page, '..', target)), `${page}: ${target}`);
      }
    }
  });

  test('the hashes that it publishes are those of its files', async () => {
    const root = join(folder, 'node_modules', NAME);
    const hashes = JSON.parse(readFileSync(join(root, 'integrity.json'), 'utf8'));
    const binaries = [...readdirSync(join(root, 'models')), ...readdirSync(join(root, 'js'))];
    assert.deepEqual(
      Object.keys(hashes).sort(),
      binaries.filter((name) => /\.(gguf|wasm)$/.test(name)).sort(),
    );
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
    // The module of languages is compared when a text needs it.
    for (const languages of [hashes['wisp-languages.wasm'], model]) {
      const checked = await Generator.load(undefined, {
        backend: 'wasm',
        integrity: { languages },
      });
      const text = checked.generate('', { grammar: 'root ::= "yes"' }).text();
      if (languages === model) await assert.rejects(text, { code: 'format', field: 'integrity' });
      else assert.equal(await text, 'yes');
      await checked.close();
    }
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

  test('stack traces of it have the names of functions, and lines', async () => {
    const root = join(folder, 'node_modules', NAME);
    const { Embedder, WispError } = await import(pathToFileURL(join(root, 'js/node.js')).href);
    const error = await Embedder.load('/nowhere').catch((/** @type {any} */ reason) => reason);
    assert.ok(error instanceof WispError && error.constructor.name === 'WispError');
    const { stack } = await Embedder.load(undefined, { workers: -1 }).catch(
      (/** @type {any} */ e) => e,
    );
    assert.match(
      stack,
      /at wrong \(.*options\.js:\d+:\d+\)\n.*at checkOption \(.*options\.js:\d+:\d+\)\n[^]*load\.js:/,
    );
    const [, line] = /load\.js:(\d+)/.exec(stack) ?? [];
    assert.ok(Number(line) > 1, stack);
  });

  for (const browser of ['chromium', 'firefox']) {
    const skip = (browser === 'firefox' && onlyInAll) || noTool(browser);
    test(`its pages embed, generate and convert in ${browser}`, { skip }, async () => {
      const { serve } = await import('../../js/program/serve.js');
      const server = await serve({
        isolated: true,
        root: join(folder, 'node_modules', NAME),
        page: (path) => (path === '/' ? { body: '<!doctype html>' } : undefined),
        files: {
          '/tests/js/page/run.mjs': `${ROOT}tests/js/page/shipped.mjs`,
          '/tiny.gguf': smallCalibratedModel(),
        },
      });
      const tab = await launch[browser]();
      try {
        await tab.open(server.origin);
        assert.deepEqual(await tab.call('useAll'), {
          threads: 2,
          code: 'not_found',
          kind: 'WispError',
        });
      } finally {
        await tab.close();
        await server.close();
      }
    });
  }

  test('it names a package of the addon for each platform, and the checkout none', () => {
    const { version, optionalDependencies: named } = JSON.parse(
      readFileSync(join(folder, 'node_modules', NAME, 'package.json'), 'utf8'),
    );
    assert.deepEqual(named, optionalDependencies(version));
    assert.ok(Object.values(named).every((wanted) => wanted === version));
    const { optionalDependencies: here } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'));
    assert.equal(here, undefined);
  });

  const isListed = `linux-${process.arch}-gnu` in TARGETS;
  const noNative = noAddon || (!isListed && `no package for ${process.arch}`);
  test('with the package of the addon it computes natively', { skip: noNative }, () => {
    const target = `linux-${process.arch}-gnu`;
    const other = join(folder, 'native');
    run(process.execPath, [
      `${ROOT}tools/addons.mjs`,
      '--any-glibc',
      join(folder, 'packages'),
      `${target}=${ADDON},${PROGRAM}`,
    ]);
    const addon = pack(join(folder, 'packages', target));
    mkdirSync(other);
    writeFileSync(join(other, 'package.json'), '{}');
    run('npm', [...install, `../${archive}`, `../${addon}`], other);
    const installed = join(other, 'node_modules/@wisp-engine', target);
    const { scripts, os, libc } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    assert.deepEqual([scripts, os, libc], [undefined, ['linux'], ['glibc']]);
    assert.deepEqual(readdirSync(installed).sort(), [
      'LICENSE',
      'NOTICE',
      'README.md',
      'package.json',
      'wisp',
      'wisp.node',
    ]);
    const help = wisp(['calibrate', '--help']).out;
    assert.equal(run('npx', ['--offline', 'wisp-engine', 'calibrate', '--help'], other), help);
    for (const [name, source] of Object.entries({ 'try.mjs': ESM, 'try.cjs': CJS })) {
      writeFileSync(join(other, name), source);
      assert.match(run(process.execPath, [name], other), /^3 wisp .*\(\w+, gcc/);
    }
  });

  for (const program of [process.execPath, 'node22', 'node24']) {
    const bin = 'node_modules/.bin/wisp-engine';
    const own = program === process.execPath;
    const path = own ? program : `${ROOT}.tools/bin/${program}`;
    const name = own ? `node ${process.version}` : program;
    for (const script of ['try.mjs', 'try.cjs']) {
      test(`${script} in ${name}`, { skip: !own && (onlyInAll || noTool(program)) }, () => {
        assert.match(run(path, [script]), /^3 wisp .*wasm (simd128|relaxed)/);
      });
    }
    test(`its program in ${name}`, { skip: !own && (onlyInAll || noTool(program)) }, () => {
      // npx runs the file that npm has made executable; other Nodes are given it.
      const embed = ['embed', '--format', 'json', '--text', 'a cat', '--text', 'a kitten'];
      const npx = ['--offline', 'wisp-engine', ...embed];
      const out = own ? run('npx', npx) : run(path, [bin, ...embed]);
      assert.deepEqual(JSON.parse(out).map((/** @type {number[]} */ row) => row.length), [384, 384]); // prettier-ignore
      const file = `tiny-${name.replace(/\W/g, '-')}.gguf`;
      assert.equal(run(path, [bin, 'convert', env.TINY_MODEL, file]), '');
      assert.equal(readFileSync(join(folder, file)).subarray(0, 4).toString(), 'GGUF');
    });
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
