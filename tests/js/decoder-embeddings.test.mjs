// SPDX-License-Identifier: Apache-2.0
// Embeddings of decoders in the module that generates, which Embedder.load takes as `wasm`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Embedder } from '../../js/node.js';
import { PROGRAM, ROOT } from './support.mjs';

const MODELS = ['qwen3-embedding', 'embeddinggemma', 'gemma3-last', 'lfm2-embedding'];
const folder = mkdtempSync(join(tmpdir(), 'wisp-decoders-'));

/** @param {string} name */
function made(name) {
  const file = join(folder, `${name}.gguf`);
  execFileSync(PROGRAM, ['convert', `${ROOT}tests/data/models/${name}`, file]);
  return file;
}

for (const name of MODELS)
  test(`${name}: the rows of sentence-transformers, with each prompt`, async () => {
    const embedder = await Embedder.load(made(name), {
      backend: 'wasm',
      compute: 'f32',
      wasm: new URL('../../js/wisp-generate-simd128.wasm', import.meta.url),
      workers: 0,
    });
    const golden = readFileSync(`${ROOT}tests/data/models/${name}/golden.json`, 'utf8');
    for (const { prompt, texts, rows } of JSON.parse(golden)) {
      const found = await embedder.embed(texts, { prompt });
      for (const [i, row] of rows.entries()) {
        const length = Math.hypot(...row);
        const mine = [...found.row(i)];
        const difference = Math.hypot(
          ...row.map((/** @type {number} */ v, /** @type {number} */ j) => v - mine[j]),
        );
        assert.ok(difference <= 3e-5 * length, `${prompt}, text ${i}: ${difference / length}`);
      }
    }
    await embedder.close();
  });

test('the module that only embeds names what it has', async () => {
  const load = Embedder.load(made(MODELS[0]), {
    backend: 'wasm',
    wasm: new URL('../../js/wisp-simd128.wasm', import.meta.url),
    workers: 0,
  });
  await assert.rejects(load, {
    code: 'unsupported',
    message: /architecture qwen3 are not supported/,
  });
});
