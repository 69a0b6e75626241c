// SPDX-License-Identifier: Apache-2.0
// The state of single neurons of a model by range, as pages draw it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, afterEach, before, describe, test } from 'node:test';
import { layersOf } from '../../js/ranges/cold-layers.js';
import { NEURON } from '../../js/cold-node.js';
import { Embedder } from '../../js/node.js';
import { shortTexts } from './pool/texts.mjs';
import { serveRanges } from './range-server.mjs';
import { smallColdModel } from './support.mjs';

const TEXT = shortTexts(1, 3)[0];
const bytes = readFileSync(smallColdModel());
const SIZES = { gap: 64, first: 4096, complete: false, store: false };
const { here, coming, needed, skipped } = NEURON;

test('the state of a neuron is where all bytes of its row are, and what masks say', () => {
  const mask = (/** @type {number[]} */ ...places) => {
    const found = new Uint8Array(8);
    for (const place of places) found[place >> 3] |= 1 << (place & 7);
    return found;
  };
  const layer = {
    ...{ neurons: 10, hot: 2, coldOffset: 1000, rowBytes: 100 },
    present: mask(0, 1, 2),
    needed: mask(1, 2, 9),
    tokens: [mask(1, 2), mask(2, 9)],
  };
  /** @type {[number, number][]} */
  const absent = [[1199, 1201], [1500, 1800]]; // prettier-ignore
  const file = {
    absent: (/** @type {[number, number]} */ range) => {
      assert.deepEqual(range, [1000, 1800]);
      return absent;
    },
    coming: /** @type {[number, number][]} */ ([[0, 50], [1000, 1550], [1790, 9000]]), // prettier-ignore
  };
  // Rows 1 and 2 lack a byte each; what is here is on its way no more.
  const states = [here, here | needed, here | needed, coming, coming, here, here, coming, 0, coming | needed]; // prettier-ignore
  const [found] = layersOf([layer], file, false);
  assert.deepEqual([...found.states], states);
  assert.deepEqual(
    found.tokens.map((token) => token.join('')),
    ['0110000000', '0010000001'],
  );
  assert.deepEqual([found.neurons, found.hot, found.coldOffset, found.rowBytes], [10, 2, 1000, 100]); // prettier-ignore
  const [skipping] = layersOf([layer], file, true);
  assert.deepEqual([...skipping.states], [...states.slice(0, 9), coming | needed | skipped]);
  const [whole] = layersOf([{ ...layer, hot: 10, coldOffset: 0, rowBytes: 0 }], file, false);
  assert.ok(whole.states.every((state) => state & here));
});

test('NEURON is the same for require()', () => {
  const { NEURON: required } = createRequire(import.meta.url)('../../js/cold-node.cjs');
  assert.deepEqual(required, NEURON);
});

describe('neurons of a model by range', () => {
  /** @type {import('./range-server.mjs').RangeServer} */
  let server;
  before(async () => (server = await serveRanges(bytes)));
  after(() => server.close());
  /** @type {Embedder | undefined} */
  let embedder;
  afterEach(async () => {
    server.fault = undefined;
    server.forget();
    await embedder?.destroy();
  });

  const load = async (/** @type {any} */ cold, workers = 1) =>
    (embedder = await Embedder.load(server.url, { workers, cold: { ...SIZES, ...cold } }));

  const coldOf = () => /** @type {Required<import('../../types/index.js').ColdTotals>} */ (/** @type {any} */ (embedder).stats().cold); // prettier-ignore

  /** @param {number} flag @returns {number[]} how many neurons of each layer have it */
  const count = (flag) =>
    coldOf().layers.map(({ states }) => states.filter((state) => state & flag).length);

  const sum = (/** @type {number[]} */ numbers) => numbers.reduce((all, n) => all + n, 0);

  for (const workers of [0, 1]) {
    test(`${workers} workers: hot, then asked for, then here; a change is told`, async () => {
      let changes = 0;
      /** @type {() => void} */
      let told = () => {};
      const onChange = () => {
        changes++;
        told();
      };
      const { layers } = (await load({ mode: 'wait', onChange }, workers)).info();
      const { hotNeurons, neurons, fileBytes, presentBytes, absent, coming: asked } = coldOf();
      assert.equal(coldOf().layers.length, layers);
      assert.equal(sum(coldOf().layers.map((layer) => layer.neurons)), neurons);
      assert.equal(sum(coldOf().layers.map((layer) => layer.hot)), hotNeurons);
      assert.equal(sum(count(here)), hotNeurons);
      assert.deepEqual([sum(count(coming)), sum(count(needed)), asked], [0, 0, []]);
      assert.equal(sum(absent.map(([start, end]) => end - start)), fileBytes - presentBytes);

      // The server holds what the first layer asks for: that is what is seen, and of no later layer.
      /** @type {(() => void)[]} */
      const held = [];
      server.fault = (_, next) => held.push(next);
      const seen = new Promise((resolve) => {
        told = () => {
          const first = count(needed)[0];
          if (first === 0)
            while (held.length > 0) held.pop()?.(); // rare words come before
          else if (held.length > 0) resolve(undefined);
        };
      });
      // A request reaches the server after its change is told.
      const timer = setInterval(() => told(), 5);
      const call = /** @type {Embedder} */ (embedder).embed(TEXT);
      await seen;
      clearInterval(timer);
      assert.ok(count(coming)[0] > 0);
      assert.ok(coldOf().coming.length > 0);
      assert.equal(sum(count(needed).slice(1)), 0);
      assert.ok(changes > 0);

      server.fault = undefined;
      for (const next of held) next();
      await call;
      assert.equal(sum(count(coming)), 0);
      for (const { states } of coldOf().layers) {
        assert.ok(states.some((state) => state & needed));
        assert.ok(states.every((state) => !(state & needed) || state & here));
      }
      assert.ok(sum(count(here)) > hotNeurons);
      assert.equal(sum(count(skipped)), 0);
    });
  }

  test('skip: what a text went without', async () => {
    await load({ mode: 'skip', onChange() {} });
    const rows = await /** @type {Embedder} */ (embedder).embed(TEXT);
    assert.ok(/** @type {any} */ (rows).skipped > 0);
    assert.ok(sum(count(skipped)) > 0);
    for (const { hot, states } of coldOf().layers) {
      states.forEach((state, place) => {
        if (state & skipped) assert.ok(place >= hot && state & needed && !(state & here));
      });
    }
  });

  test('memory without a store: what a worker has is here', async () => {
    embedder = await Embedder.load(server.url, {
      workers: 1,
      memory: 1e9,
      cold: { ...SIZES, mode: 'wait', store: false, onChange() {} },
    });
    await embedder.embed(TEXT);
    assert.equal(coldOf().evictions, 0);
    for (const { states } of coldOf().layers)
      assert.ok(states.every((state) => !(state & needed) || state & here));
  });

  test('that the rest has come is told', async () => {
    await new Promise((resolve) => {
      const onChange = () => void (coldOf().rest === 'done' && resolve(undefined));
      void load({ mode: 'wait', complete: true, onChange });
    });
  });

  test('without onChange nothing of it is computed; it has to be a function', async () => {
    await load({ mode: 'wait' });
    const { layers, absent } = /** @type {any} */ (coldOf());
    assert.deepEqual([layers, absent], [undefined, undefined]);
    await assert.rejects(load({ mode: 'wait', onChange: 1 }), { code: 'argument', field: 'cold' });
  });
});
