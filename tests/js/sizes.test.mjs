// SPDX-License-Identifier: Apache-2.0
// Bytes that a page loads of the package as it ships, after brotli.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf, scriptsOf } from './shipped.mjs';

test('the JavaScript of a page is at most 21 KB after brotli, with threads 22.5', () => {
  const { reached, bytes } = scriptsOf('browser.js', 'worker-browser.js');
  assert.ok(reached.has('engine.js') && reached.has('pool.js'));
  assert.ok(bytes <= 21_000, `${bytes} bytes`);
  const threads = scriptsOf('browser.js', 'threads-worker-browser.js').bytes;
  assert.ok(threads <= 22_470, `${threads} bytes`);
});

test('a page that embeds loads nothing of the generator, whose page has 25.5 KB', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const { reached, bytes } = scriptsOf('generate-browser.js', 'generate-worker-browser.js');
  for (const name of ['generator.js', 'text-engine.js', 'text-worker.js', 'write-job.js']) {
    assert.ok(reached.has(name) && !embedding.has(name), name);
  }
  const more = scriptsOf('text.js', 'search.js');
  for (const name of ['stream.js', 'chunk.js', 'search.js', 'dot-kernel.js']) {
    assert.ok(more.reached.has(name) && !embedding.has(name), name);
  }
  for (const name of ['langchain.js', 'ai.js', 'feature-extraction.js', 'tensor.js', 'cli.js']) {
    assert.ok(!embedding.has(name), name);
  }
  assert.ok(bytes <= 25_510, `${bytes} bytes`);
});

test('a page loads what finds models by name only when it does so: 7.5 KB at most', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const hub = scriptsOf('hub-browser.js').reached;
  const more = [...hub].filter((name) => !embedding.has(name));
  assert.deepEqual(more.sort(), [
    'database-store.js',
    'hub-browser.js',
    'hub-download.js',
    'hub-store.js',
    'hub.js',
  ]);
  const bytes = bytesOf(more);
  assert.ok(bytes <= 7500, `${bytes} bytes`);
});

test('a page loads what converts only when it does so: 13.5 KB at most, and a module of 80', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const { reached } = scriptsOf('convert-browser.js', 'convert-worker-browser.js');
  const more = [...reached].filter((name) => !embedding.has(name));
  const bytes = bytesOf(more);
  const module = bytesOf(['wisp-convert.wasm']);
  assert.ok(more.includes('convert.js') && more.includes('hub.js'));
  assert.ok(!more.some((name) => /node|cli/.test(name)));
  assert.ok(bytes <= 13_500, `${bytes} bytes`);
  assert.ok(module <= 80_000, `${module} bytes`);
});

test('a page loads what fetches cold neurons only when it does so: 23.2 KB at most', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const cold = scriptsOf('cold-browser.js', 'cold-worker-browser.js').reached;
  const more = [...cold].filter((name) => !embedding.has(name));
  const bytes = bytesOf(more);
  assert.ok(more.includes('cold-http.js') && more.includes('cold-engine.js'));
  assert.ok(bytes <= 23_180, `${bytes} bytes`);
});

test('a worker loads what computes with threads only when it does so: 2 KB at most', () => {
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  const threads = scriptsOf('browser.js', 'threads-worker-browser.js').reached;
  const more = [...threads].filter((name) => !embedding.has(name));
  const bytes = bytesOf(more);
  assert.ok(more.includes('threads.js') && more.includes('team-engine.js'));
  assert.ok(bytes <= 2000, `${bytes} bytes`);
});

test('modules that only embed have no decoders: at most 90 KB after brotli, with threads 92, the others 177', () => {
  for (const build of ['simd128', 'relaxed']) {
    const size = (/** @type {string} */ name) => bytesOf([`${name}-${build}.wasm`]);
    assert.ok(size('wisp') <= 90_000, `${build}: ${size('wisp')} bytes`);
    const threads = size('wisp-embed-threads');
    assert.ok(threads <= 92_000, `${build}: ${threads} bytes`);
    for (const name of ['wisp-generate', 'wisp-threads'])
      assert.ok(size(name) <= 177_000, `${name}-${build}: ${size(name)} bytes`);
  }
});
