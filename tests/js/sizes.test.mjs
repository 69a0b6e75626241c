// SPDX-License-Identifier: Apache-2.0
// Bytes that a page loads of the package as it ships, after brotli.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf, scriptsOf } from './shipped.mjs';

test('the JavaScript of a page is at most 22.3 KB after brotli, with threads 24', () => {
  const { reached, bytes } = scriptsOf('browser.js', 'worker-browser.js');
  assert.ok(reached.has('engine/engine.js') && reached.has('calls/pool.js'));
  assert.ok(bytes <= 22_300, `${bytes} bytes`);
  const threads = scriptsOf('browser.js', 'threads-worker-browser.js').bytes;
  assert.ok(threads <= 24_000, `${threads} bytes`);
});

test('a page that embeds loads nothing of the generator, whose page has 30.2 KB', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const { reached, bytes } = scriptsOf('generate-browser.js', 'generate-worker-browser.js');
  for (const name of [
    'calls/generator.js',
    'engine/text-engine.js',
    'engine/text-worker.js',
    'calls/write-job.js',
  ]) {
    assert.ok(reached.has(name) && !embedding.has(name), name);
  }
  const more = scriptsOf('text.js', 'search.js');
  for (const name of ['text/stream.js', 'text/chunk.js', 'search.js', 'index/dot-kernel.js']) {
    assert.ok(more.reached.has(name) && !embedding.has(name), name);
  }
  for (const name of [
    'langchain.js',
    'ai.js',
    'adapters/feature-extraction.js',
    'adapters/tensor.js',
    'cli.js',
  ]) {
    assert.ok(!embedding.has(name), name);
  }
  assert.ok(bytes <= 30_200, `${bytes} bytes`);
});

test('a page loads what scores texts only when it does so: 22.4 KB, and a module of 157.5', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const { reached, bytes } = scriptsOf('rerank-browser.js', 'rerank-worker-browser.js');
  for (const name of ['calls/reranker.js', 'engine/rank-engine.js'])
    assert.ok(reached.has(name) && !embedding.has(name), name);
  assert.ok(bytes <= 22_400, `${bytes} bytes`);
  for (const build of ['simd128', 'relaxed']) {
    const module = bytesOf([`wisp-encoders-${build}.wasm`]);
    assert.ok(module <= 157_500, `${build}: ${module} bytes`);
  }
});

test('a page loads what finds models by name only when it does so: 11.4 KB at most', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const hub = scriptsOf('hub-browser.js').reached;
  const more = [...hub].filter((name) => !embedding.has(name));
  assert.deepEqual(more.sort(), [
    'files/database-store.js',
    'files/joined.js',
    'files/part-names.js',
    'hub-browser.js',
    'hub/hub-architecture.js',
    'hub/hub-download.js',
    'hub/hub-store.js',
    'hub/hub.js',
  ]);
  const bytes = bytesOf(more);
  assert.ok(bytes <= 11_400, `${bytes} bytes`);
});

test('a page loads what converts only when it does so: 17.9 KB at most, and a module of 106.5', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const { reached } = scriptsOf('convert-browser.js', 'convert-worker-browser.js');
  const more = [...reached].filter((name) => !embedding.has(name));
  const bytes = bytesOf(more);
  const module = bytesOf(['wisp-convert.wasm']);
  assert.ok(more.includes('convert/convert.js') && more.includes('hub/hub.js'));
  assert.ok(!more.some((name) => /node|cli/.test(name)));
  assert.ok(bytes <= 17_900, `${bytes} bytes`);
  assert.ok(module <= 106_500, `${module} bytes`);
});

test('a page loads what fetches cold neurons only when it does so: 24.1 KB at most', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const cold = scriptsOf('cold-browser.js', 'cold-worker-browser.js').reached;
  const more = [...cold].filter((name) => !embedding.has(name));
  const bytes = bytesOf(more);
  assert.ok(more.includes('ranges/cold-http.js') && more.includes('ranges/cold-engine.js'));
  assert.ok(bytes <= 24_100, `${bytes} bytes`);
});

test('a worker loads what computes with threads only when it does so: 2 KB at most', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const threads = scriptsOf('browser.js', 'threads-worker-browser.js').reached;
  const more = [...threads].filter((name) => !embedding.has(name));
  const bytes = bytesOf(more);
  assert.ok(more.includes('engine/threads.js') && more.includes('engine/team-engine.js'));
  assert.ok(bytes <= 2000, `${bytes} bytes`);
});

test('a text with messages, a grammar or a schema loads a module of 70 KB', () => {
  const module = bytesOf(['wisp-languages.wasm']);
  assert.ok(module <= 70_000, `${module} bytes`);
});

test('modules that only embed have at most 91 KB after brotli, with threads 92.5, those that generate 205', () => {
  for (const build of ['simd128', 'relaxed']) {
    const size = (/** @type {string} */ name) => bytesOf([`${name}-${build}.wasm`]);
    assert.ok(size('wisp') <= 91_000, `${build}: ${size('wisp')} bytes`);
    const threads = size('wisp-embed-threads');
    assert.ok(threads <= 92_500, `${build}: ${threads} bytes`);
    for (const name of ['wisp-generate', 'wisp-threads'])
      assert.ok(size(name) <= 205_000, `${name}-${build}: ${size(name)} bytes`);
  }
});
