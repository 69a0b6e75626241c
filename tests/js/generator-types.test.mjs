// SPDX-License-Identifier: Apache-2.0
// Models whose weights stay as they are in the file, in WebAssembly: each type takes the memory that docs/formats.md says,
// gives the native program's probabilities, and those of the same weights as floats.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { writeModel } from '../../bench/generate/model.mjs';
import { Generator } from '../../js/generate-node.js';
import { ROOT, wisp } from './support.mjs';

/** @type {import('../../bench/generate/model.mjs').Shape} */
const SHAPE = {
  ...{ architecture: 'llama', layers: 2, hidden: 512, feedForward: 2048, tied: true },
  ...{ heads: 8, keyValueHeads: 8, headSize: 64, vocabulary: 600 },
};
/** Weights of the layers. */
const WEIGHTS = SHAPE.layers * (4 * SHAPE.hidden ** 2 + 3 * SHAPE.hidden * SHAPE.feedForward);
const TEXT = 'a b c d e f g h';
const folder = `${ROOT}build/test-models`;
mkdirSync(folder, { recursive: true });

/** Bits in memory of a weight of the layers. Q4_K_M has half of its values and of the last matrices in Q6_K. */
const BITS = {
  ...{ Q8_0: 8.5, Q4_0: 4.75, Q4_1: 5.25, Q2_K: 3, Q3_K: 3.875, Q4_K: 5, Q5_K: 6, Q6_K: 6.875 },
  ...{ Q5_0: 5.75, Q5_1: 6.25, TQ1_0: 2.1875, TQ2_0: 2.1875, I2_S: 2.14 },
  ...{ Q1_0: 2.25, Q2_0: 2.5, PQ2_0: 2.25 },
  ...{ IQ4_NL: 4.75, IQ4_XS: 4.625, MXFP4: 4.75 },
};

/**
 * @param {string} path
 * @param {'f32' | 'int8'} compute
 */
async function run(path, compute) {
  const options = { backend: /** @type {const} */ ('wasm'), threads: 1, compute };
  // int8 keys and values would add an error of their own.
  const generator = await Generator.load(path, { ...options, cacheType: 'f32' });
  const logprobs = await generator.score(TEXT);
  const likely = [];
  for await (const token of generator.generate(TEXT, { maxTokens: 1, logprobs: 5 }).tokens())
    likely.push(...(token.likely ?? []));
  const { memoryBytes } = generator.stats();
  await generator.close();
  return { logprobs: [...logprobs], likely, memoryBytes };
}

describe('weights in memory', () => {
  /** @type {Record<string, Awaited<ReturnType<typeof run>>>} */
  const runs = {};
  for (const type of [...Object.keys(BITS), 'Q4_K_M'])
    test(`${type}: the native probabilities, and those of floats`, async () => {
      const path = `${folder}/type-${type}.gguf`;
      writeModel(path, SHAPE, type);
      const blocks = (runs[type] = await run(path, 'int8'));
      const floats = await run(path, 'f32');
      blocks.logprobs.forEach((logprob, i) =>
        assert.ok(
          Math.abs(logprob - floats.logprobs[i]) < 0.02 * Math.abs(floats.logprobs[i]),
          `token ${i}: ${logprob}, of floats ${floats.logprobs[i]}`,
        ),
      );
      const { code, out, err } = wisp(
        [
          'generate',
          '-m',
          path,
          '--data',
          '-',
          '-n',
          '1',
          '--logprobs',
          '5',
          '--cache-type',
          'f32',
        ],
        JSON.stringify(TEXT),
      );
      assert.equal(code, 0, err);
      const [{ likely }] = JSON.parse(out).pieces;
      assert.equal(blocks.likely.length, 5);
      blocks.likely.forEach(({ logprob }, i) =>
        assert.ok(
          Math.abs(logprob - likely[i][1]) < 0.1,
          `likely ${i}: ${logprob}, natively ${likely[i][1]}`,
        ),
      );
    });

  test('take the memory that docs/formats.md says', () => {
    for (const [type, bits] of Object.entries(BITS)) {
      // Token embeddings also are in memory as they are in the file, and as outputs.
      const saved = runs.Q8_0.memoryBytes - runs[type].memoryBytes;
      assert.ok(
        saved >= (WEIGHTS * (BITS.Q8_0 - bits)) / 8 - 600_000,
        `${type}: ${runs.Q8_0.memoryBytes} bytes of Q8_0 become ${runs[type].memoryBytes}`,
      );
    }
  });
});
