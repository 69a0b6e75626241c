// SPDX-License-Identifier: Apache-2.0
// Faults around the calls of one engine's module are typed errors too.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Engine } from '../../js/engine/engine.js';
import { compileBuild } from '../../js/embedding-node.js';
import { withInstances } from './campaign/instances.mjs';
import { smallModel } from './support.mjs';

const module = await compileBuild('simd128');
const model = new Uint8Array(readFileSync(smallModel()));

test('no memory for an instance: out of memory', async () => {
  const imports = () => {
    throw new RangeError('WebAssembly.instantiate(): Out of memory');
  };
  await withInstances({ imports }, () =>
    assert.rejects(Engine.open(module, model), { name: 'WispError', code: 'memory' }),
  );
});

test('a wrong number of dimensions is refused before any memory is taken', async () => {
  const engine = await Engine.open(module, model);
  for (const dimensions of [-1, 0.5, NaN, Infinity, 2 ** 32 + 1, 2 ** 40, '3']) {
    const options = /** @type {any} */ ({ dimensions });
    assert.throws(() => engine.embed(['a'], options), {
      name: 'WispError',
      code: 'argument',
      field: 'dimensions',
    });
  }
  assert.equal(engine.embed(['a'], { dimensions: 3 }).length, 3);
  engine.close();
});

test('no memory for the rows or for the bytes of a text: out of memory', async () => {
  const engine = await Engine.open(module, model);
  const expected = engine.embed(['a']);
  const texts = { length: 2 ** 40, 0: 'a' };
  assert.throws(() => engine.embed(/** @type {any} */ (texts)), { code: 'memory' });

  const { encode } = TextEncoder.prototype;
  TextEncoder.prototype.encode = () => {
    throw new RangeError('Array buffer allocation failed');
  };
  try {
    assert.throws(() => engine.embed(['a']), { name: 'WispError', code: 'memory' });
    assert.throws(() => engine.tokenize('a'), { name: 'WispError', code: 'memory' });
  } finally {
    TextEncoder.prototype.encode = encode;
  }
  assert.deepEqual(engine.embed(['a']), expected);
  engine.close();
});

test('a trap where memory is released or the engine is closed is a typed error', async () => {
  for (const name of ['release', 'engine_free']) {
    const trap = () => {
      throw new WebAssembly.RuntimeError('unreachable');
    };
    let broken = false;
    const exports = (/** @type {any} */ given) => ({
      ...given,
      [name]: (/** @type {number} */ block) => (broken ? trap() : given[name](block)),
    });
    await withInstances({ exports }, async () => {
      const engine = await Engine.open(module, model);
      broken = true;
      const call = name === 'release' ? () => engine.embed(['a']) : () => engine.close();
      assert.throws(call, { name: 'WispError', code: 'trap' });
      assert.throws(() => engine.embed(['a']), { name: 'WispError' });
      engine.close();
    });
  }
});
