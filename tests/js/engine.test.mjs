// SPDX-License-Identifier: Apache-2.0
// One WebAssembly instance: the same answers as the native program, memory, and failure.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';
import { WispError } from '../../js/base/errors.js';
import { compileBuild } from '../../js/embedding-node.js';
import { readBytes } from '../../js/platform/platform-node.js';
import {
  DEFAULT_MODEL_PATH,
  cosine,
  extent,
  floatsOf,
  goldenTexts,
  noShared,
  readShared,
  sharedPath,
  smallModel,
  wisp,
} from './support.mjs';

const SIZE = 384;
const folder = mkdtempSync(join(tmpdir(), 'wisp-engine-'));
after(() => rmSync(folder, { recursive: true }));

/** Every build that this engine accepts. */
const builds = pickBuild() === 'relaxed' ? ['relaxed', 'simd128'] : ['simd128'];

for (const name of builds) {
  const build = /** @type {import('../../types/internal.js').Build} */ (name);
  describe(`build ${build}`, () => {
    /** @type {WebAssembly.Module} */
    let module;
    /** @type {Engine} */
    let engine;
    before(async () => {
      module = await compileBuild(build);
      engine = await Engine.open(module, await readBytes(DEFAULT_MODEL_PATH));
    });
    after(() => engine.close());

    test('says what it is', () => {
      const info = engine.info();
      assert.equal(info.name, 'wisp-minilm-l6-relu');
      assert.equal(info.hiddenSize, SIZE);
      assert.equal(info.compute, 'int8');
      assert.equal(info.pooling, 'mean');
      assert.match(info.build, new RegExp(`wasm ${build}`));
    });

    test('golden token ids', { skip: noShared }, () => {
      const texts = JSON.parse(readShared('golden/all-MiniLM-L6-v2/texts.json').toString());
      const ids = JSON.parse(readShared('golden/all-MiniLM-L6-v2/ids.json').toString());
      texts.forEach((/** @type {string} */ text, /** @type {number} */ i) =>
        assert.deepEqual([...engine.tokenize(text)], ids[i], `text ${i}`),
      );
    });

    test('golden embeddings: f32 as PyTorch, int8 near it', { skip: noShared }, async () => {
      const path = join(folder, `${build}.gguf`);
      wisp(['convert', sharedPath('models/all-MiniLM-L6-v2'), path]);
      const { texts, places } = goldenTexts();
      const expected = floatsOf(readShared('golden/all-MiniLM-L6-v2/embeddings.f32'));
      for (const [compute, mean, min] of /** @type {const} */ ([
        ['f32', 0.99999, 0.99999],
        ['int8', 0.999, 0.995],
      ])) {
        const model = await Engine.open(module, await readBytes(path), { compute });
        const rows = model.embed(texts);
        model.close();
        const cosines = places.map((place, i) =>
          cosine(
            rows.subarray(i * SIZE, (i + 1) * SIZE),
            expected.subarray(place * SIZE, (place + 1) * SIZE),
          ),
        );
        assert.ok(Math.min(...cosines) >= min);
        assert.ok(cosines.reduce((a, b) => a + b) / texts.length >= mean);
      }
    });

    test('f32 equals the native scalar kernels to 1e-6', async () => {
      const texts = ['', 'one', 'A longer text, with commas and CAPITALS.', 'words '.repeat(70)];
      const args = ['embed', '--cpu', 'scalar', '--compute', 'f32', '--format', 'f32'];
      const expected = floatsOf(wisp(args, texts.join('\n') + '\n').bytes);
      const model = await Engine.open(module, await readBytes(DEFAULT_MODEL_PATH), {
        compute: 'f32',
      });
      const rows = model.embed(texts);
      model.close();
      assert.equal(rows.length, expected.length);
      rows.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) <= 1e-6, `value ${i}`));
    });

    test('4-bit types: f32 equals the native scalar kernels to 1e-6, int8 is near it', async () => {
      const texts = ['one', 'A longer text, with commas and CAPITALS.'];
      for (const type of ['q4_0', 'iq4_nl', 'mxfp4']) {
        const path = join(folder, `${build}-${type}.gguf`);
        assert.equal(wisp(['quantize', '--type', type, smallModel('prompted'), path]).code, 0);
        const how = ['-m', path, '--cpu', 'scalar', '--compute', 'f32', '--format', 'f32'];
        const expected = floatsOf(wisp(['embed', ...how], texts.join('\n') + '\n').bytes);
        const length = expected.length / texts.length;
        for (const compute of /** @type {const} */ (['f32', 'int8'])) {
          const model = await Engine.open(module, await readBytes(path), { compute });
          const rows = model.embed(texts);
          model.close();
          if (compute === 'f32')
            rows.forEach((value, i) =>
              assert.ok(Math.abs(value - expected[i]) <= 1e-6, `${type}, value ${i}`),
            );
          for (let i = 0; i < rows.length; i += length) {
            const likeness = cosine(rows.subarray(i, i + length), expected.subarray(i, i + length));
            assert.ok(likeness > 0.99, `${type}, ${compute}: ${likeness}`);
          }
        }
      }
    });

    test('a row has the same bits alone and in any company', () => {
      const texts = Array.from({ length: 30 }, (_, i) => 'word '.repeat(i * i) + i);
      const together = engine.embed(texts);
      const backwards = engine.embed([...texts].reverse());
      texts.forEach((text, i) => {
        const row = together.subarray(i * SIZE, (i + 1) * SIZE);
        assert.deepEqual(engine.embed([text]), row);
        const j = texts.length - 1 - i;
        assert.deepEqual(backwards.subarray(j * SIZE, (j + 1) * SIZE), row);
      });
    });

    test('memory is flat from the first large call on, and starts small', async () => {
      const model = await Engine.open(module, await readBytes(DEFAULT_MODEL_PATH));
      const fileBytes = readFileSync(DEFAULT_MODEL_PATH).length;
      assert.ok(model.memoryBytes < 1.25 * fileBytes, `${model.memoryBytes} bytes after opening`);
      const texts = Array.from({ length: 300 }, (_, i) => 'some words '.repeat(i % 40));
      model.embed(texts);
      const settled = model.memoryBytes;
      const again = extent('repeated calls', 3, 1);
      for (let i = 0; i < again; i++) model.embed(texts);
      assert.equal(model.memoryBytes, settled);
      model.close();
    });

    test('calls that become larger use the memory of those before', async () => {
      const model = await Engine.open(module, await readBytes(DEFAULT_MODEL_PATH));
      model.embed(['one']);
      const settled = model.memoryBytes;
      for (const count of [2, 8, 32, 64, 300]) {
        model.embed(Array.from({ length: count }, (_, i) => 'some words '.repeat(i % 40)));
      }
      assert.ok(model.memoryBytes < settled + 1e6, `${settled} became ${model.memoryBytes} bytes`);
      model.close();
    });

    test('prompts and dimensions', () => {
      assert.equal(engine.prompt(), '');
      assert.equal(engine.prompt('query'), undefined);
      assert.deepEqual(engine.embed(['x'], { prompt: 'query: ' }), engine.embed(['query: x']));
      const short = engine.embed(['x', 'y'], { dimensions: 10 });
      assert.equal(short.length, 20);
      assert.ok(Math.abs(Math.hypot(...short.subarray(0, 10)) - 1) < 1e-6);
      assert.throws(() => engine.embed(['x'], { dimensions: 385 }), { code: 'argument' });
      assert.equal(engine.embed([]).length, 0);
    });

    test('strings that are not well-formed, and NUL', () => {
      assert.deepEqual(engine.tokenize('a\ud800b'), engine.tokenize('a\ufffdb'));
      assert.deepEqual([...engine.tokenize('a\0b')], [...engine.tokenize('ab')]);
      assert.equal(engine.countTokens('a\0b'), engine.tokenize('a\0b').length);
      assert.equal(engine.countTokens('a '.repeat(1000)), 1002);
    });

    test('statistics count', async () => {
      const model = await Engine.open(module, await readBytes(DEFAULT_MODEL_PATH));
      model.embed(['one two', 'words '.repeat(300)]);
      const stats = model.stats();
      model.close();
      assert.equal(stats.texts, 2);
      assert.equal(stats.tokens, 4 + 256);
      assert.equal(stats.truncatedTexts, 1);
      for (const stage of ['tokenize', 'attention', 'ffn_sparse', 'pool']) {
        assert.ok(stats.stageSeconds[stage] > 0, stage);
      }
    });

    test('a malformed model is a typed error', async () => {
      const bytes = (await readBytes(DEFAULT_MODEL_PATH)).slice(0, 100000);
      await assert.rejects(Engine.open(module, bytes), { name: 'WispError', code: 'format' });
      await assert.rejects(Engine.open(module, new Uint8Array(0)), { code: 'format' });
      await assert.rejects(Engine.open(module, bytes, { kernels: 'avx2' }), { code: 'format' });
      const whole = await readBytes(DEFAULT_MODEL_PATH);
      await assert.rejects(Engine.open(module, whole, { kernels: 'avx2' }), {
        code: 'unsupported',
        field: 'kernels',
      });
    });

    test('an option that is unknown, or has an unknown value, is a typed error', async () => {
      const bytes = await readBytes(DEFAULT_MODEL_PATH);
      /** @type {[string, unknown, RegExp][]} */
      const wrong = [
        ['compute', 'int3', /compute: 'int3' is not one of auto, f32, int8/],
        ['predictor', 'best', /'best' is not one of auto, dense, exact, lowrank, sentence/],
        ['predictor', 7, /'7' is not one of auto/],
        ['sparsety', 0.5, /sparsety: there is no such option/],
        ['toString', 1, /no such option/],
        ['', 1, /no such option/],
      ];
      for (const [field, value, message] of wrong) {
        const options = /** @type {any} */ ({ [field]: value });
        const expected = { name: 'WispError', code: 'argument', field, message };
        await assert.rejects(Engine.open(module, bytes, options), expected);
      }
      const unset = { compute: undefined, kernels: undefined, predictor: undefined };
      const model = await Engine.open(module, bytes, unset);
      assert.equal(model.info().kernels, engine.info().kernels);
      model.close();
    });

    test('a name of any characters is what info() says', async () => {
      const path = join(folder, `${build}-name.gguf`);
      const name = 'a "name" \\ with\n\ttabs, quotes and \u00fcml\u00e4uts';
      wisp(['convert', DEFAULT_MODEL_PATH, path, '--name', name]);
      const model = await Engine.open(module, await readBytes(path));
      assert.equal(model.info().name, name);
      model.close();
    });

    test('a source that fails is an io error with its cause', async () => {
      const cause = new Error('the disk is on fire');
      const source = {
        size: 1e6,
        read() {
          throw cause;
        },
      };
      await assert.rejects(Engine.open(module, source), (/** @type {WispError} */ error) => {
        assert.equal(error.code, 'io');
        assert.equal(error.cause, cause);
        return true;
      });
    });

    test('a source that lasts is read as tokens need it: same bits, less memory', async () => {
      const bytes = await readBytes(DEFAULT_MODEL_PATH);
      const held = await Engine.open(module, bytes);
      const cause = new Error('the cable was cut');
      let cut = false;
      const asked = await Engine.open(module, {
        size: bytes.length,
        lasting: true,
        read(offset, into) {
          if (cut) throw cause;
          into.set(bytes.subarray(offset, offset + into.length));
        },
      });
      // Weights take the place of what only opening needed. Memory never shrinks.
      assert.ok(asked.memoryBytes < 15.2e6, `${asked.memoryBytes} bytes after opening`);
      const texts = ['the same bits', 'wherever they come from'];
      assert.deepEqual(asked.embed(texts), held.embed(texts));
      assert.ok(asked.memoryBytes < held.memoryBytes - 4e6);
      cut = true;
      assert.throws(
        () => asked.embed(texts),
        (/** @type {WispError} */ error) => error.code === 'io' && error.cause === cause,
      );
      cut = false;
      assert.deepEqual(asked.embed(texts), held.embed(texts));
      held.close();
      asked.close();
    });

    test('memory that cannot grow is a typed error', async () => {
      const source = { size: 2 ** 40, read: readHugeHeader };
      await assert.rejects(Engine.open(module, source), (/** @type {WispError} */ error) => {
        assert.ok(error instanceof WispError);
        assert.equal(error.code, 'memory');
        return true;
      });
    });

    test('after close every call says so, and closing twice is fine', async () => {
      const model = await Engine.open(module, await readBytes(DEFAULT_MODEL_PATH));
      model.close();
      model.close();
      for (const call of [() => model.embed(['x']), () => model.tokenize('x'), () => model.info()])
        assert.throws(call, { name: 'WispError', code: 'closed' });
    });
  });
}

/**
 * A GGUF header that promises one metadata string of 5 GB, in a source of a terabyte.
 * @param {number} offset
 * @param {Uint8Array} into
 */
function readHugeHeader(offset, into) {
  const header = new Uint8Array(64);
  const view = new DataView(header.buffer);
  header.set(new TextEncoder().encode('GGUF'));
  view.setUint32(4, 3, true);
  view.setBigUint64(16, 1n, true); // one metadata entry
  view.setBigUint64(24, 1n, true); // key of one byte
  header[32] = 0x6b;
  view.setUint32(33, 8, true); // a string
  view.setBigUint64(37, 5n * 2n ** 30n, true);
  into.set(header.subarray(offset, offset + into.length));
}
