// SPDX-License-Identifier: Apache-2.0
// Ternary weights, and other types that only models which generate have, in WebAssembly: the rows of the native program.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Engine } from '../../js/engine/engine.js';
import { pickBuild } from '../../js/calls/load.js';
import { DEFAULT_MODEL_PATH, ROOT, cosine, floatsOf, smallModel, wisp } from './support.mjs';

const texts = ['one', 'A longer text, with commas and CAPITALS.'];
const folder = mkdtempSync(join(tmpdir(), 'wisp-ternary-'));
after(() => rmSync(folder, { recursive: true }));

/** Files by their type. Rows of the first are not whole blocks, so its blocks cross rows. */
const files = /** @type {Record<string, string>} */ ({});
before(() => {
  const make = (/** @type {string} */ type, /** @type {string[]} */ ...args) => {
    files[type] = join(folder, `${type}.gguf`);
    const { code, err } = wisp(['quantize', '--type', type, ...args, files[type]]);
    assert.equal(code, 0, err);
  };
  make('bitnet_t158', smallModel('prompted'));
  for (const type of ['tq2_0', 'tq1_0', 'iq4_nl', 'mxfp4', 'q2_k'])
    make(type, '--fallback', 'q8_0', DEFAULT_MODEL_PATH);
});

/**
 * The program's rows of a file.
 * @param {string} type
 * @param {string[]} args
 */
const native = (type, ...args) => {
  const how = ['-m', files[type], '--predictor', 'dense', '--format', 'f32'];
  const { code, bytes, err } = wisp(['embed', ...how, ...args], texts.join('\n') + '\n');
  assert.equal(code, 0, err);
  return floatsOf(bytes);
};

for (const build of pickBuild() === 'relaxed' ? ['relaxed', 'simd128'] : ['simd128'])
  describe(`wisp-${build}.wasm`, () => {
    /** @type {WebAssembly.Module} */
    let module;
    before(async () => {
      module = await WebAssembly.compile(readFileSync(`${ROOT}js/wisp-${build}.wasm`));
    });

    /**
     * @param {string} type
     * @param {import('../../js/engine/engine.js').EngineOptions} options
     */
    const rows = async (type, options) => {
      const engine = await Engine.open(module, readFileSync(files[type]), {
        predictor: 'dense',
        ...options,
      });
      const made = engine.embed(texts);
      engine.close();
      return made;
    };

    const read = ['bitnet_t158', 'tq2_0', 'tq1_0', 'iq4_nl', 'mxfp4'];
    for (const type of read)
      test(`${type}: f32 equals the native scalar kernels to 1e-6, int8 is near it`, async () => {
        const expected = native(type, '--cpu', 'scalar', '--compute', 'f32');
        const length = expected.length / texts.length;
        const floats = await rows(type, { compute: 'f32' });
        assert.equal(floats.length, expected.length);
        floats.forEach((value, i) =>
          assert.ok(Math.abs(value - expected[i]) <= 1e-6, `value ${i}`),
        );
        const made = await rows(type, { compute: 'int8' });
        for (let i = 0; i < made.length; i += length) {
          const likeness = cosine(made.subarray(i, i + length), expected.subarray(i, i + length));
          assert.ok(likeness > 0.995, `int8: ${likeness}`);
        }
      });

    test('portable: the native bits', async () => {
      for (const type of ['bitnet_t158', 'tq2_0'])
        assert.deepEqual(await rows(type, { portable: true }), native(type, '--portable'), type);
    });

    test('types that only models which generate have are refused by name', async () => {
      await assert.rejects(rows('q2_k', {}), { code: 'unsupported', message: /Q2_K/ });
    });
  });
