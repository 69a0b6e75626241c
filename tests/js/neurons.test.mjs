// SPDX-License-Identifier: Apache-2.0
// A model whose neurons are rows in its file gives the embeddings of the plain one everywhere.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';
import { Embedder } from '../../js/node.js';
import { compileBuild } from '../../js/embedding-node.js';
import { shortTexts } from './pool/texts.mjs';
import { DEFAULT_MODEL_PATH, wisp } from './support.mjs';

const TEXTS = shortTexts(40, 0);

describe('neurons as rows', () => {
  const folder = mkdtempSync(join(tmpdir(), 'wisp-neurons-'));
  const rows = join(folder, 'rows.gguf');
  after(() => rmSync(folder, { recursive: true }));
  before(() => assert.equal(wisp(['convert', '--neurons', DEFAULT_MODEL_PATH, rows]).code, 0));

  /**
   * @param {string} path
   * @param {import('../../js/engine/engine.js').EngineOptions} options
   */
  async function embed(path, options) {
    const bytes = new Uint8Array(readFileSync(path));
    const engine = await Engine.open(await compileBuild(pickBuild()), bytes, options);
    const embeddings = engine.embed(TEXTS);
    engine.close();
    return embeddings;
  }

  test('the module makes the same of them', async () => {
    for (const predictor of /** @type {const} */ (['dense', 'exact']))
      assert.deepEqual(
        await embed(rows, { predictor }),
        await embed(DEFAULT_MODEL_PATH, { predictor }),
      );
  });

  test('so do workers, and the program', async () => {
    const embedder = await Embedder.load(rows, { workers: 2 });
    const found = new Float32Array((await embedder.embed(TEXTS)).buffer);
    await embedder.close();
    assert.deepEqual(found, await embed(DEFAULT_MODEL_PATH, {}));
    const plain = wisp(['embed', '--format', 'f32'], TEXTS.join('\n'));
    const native = wisp(['embed', '-m', rows, '--format', 'f32'], TEXTS.join('\n'));
    assert.equal(native.code, 0, native.err);
    assert.deepEqual(native.bytes, plain.bytes);
  });

  test('inspect shows what is in the file', () => {
    const { out } = wisp(['inspect', rows]);
    assert.match(out, /blk\.5\.ffn_neurons\.hot +I8 +1536 x 792 /);
    assert.match(out, /blk\.5\.ffn_down_scales +F16 +384 x 48 /);
    assert.doesNotMatch(out, /ffn_up\.weight/);
    const { tensors } = JSON.parse(wisp(['inspect', '--format', 'json', rows]).out);
    assert.equal(tensors.at(-1).offset + tensors.at(-1).bytes, readFileSync(rows).length);
  });

  test('convert takes them apart again', () => {
    const plain = join(folder, 'plain.gguf');
    assert.equal(wisp(['convert', '--plain', rows, plain]).code, 0);
    assert.deepEqual(readFileSync(plain), readFileSync(DEFAULT_MODEL_PATH));
  });

  test('convert explains what cannot be', () => {
    const never = join(folder, 'never.gguf');
    const run = wisp(['convert', '--neurons', '--plain', DEFAULT_MODEL_PATH, never]);
    assert.equal(run.code, 2);
    assert.match(run.err, /neurons/);
    assert.ok(!existsSync(never));
  });
});
