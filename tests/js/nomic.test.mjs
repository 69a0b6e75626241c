// SPDX-License-Identifier: Apache-2.0
// nomic-bert, whose layers are gated and whose positions are rotary, in the module and natively.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';
import { compileBuild } from '../../js/embedding-node.js';
import { shortTexts } from './pool/texts.mjs';
import { cosine, floatsOf, smallCalibratedModel, wisp } from './support.mjs';

const MODEL = smallCalibratedModel('nomic');
const TEXTS = shortTexts(100, 0);

/** The errors that int8 and f32 results may have. Each kernel set rounds int8 in its own way, and that of AVX2 has the fewest steps. */
const SETTINGS = /** @type {const} */ ([
  { compute: 'f32', predictor: 'dense', least: 0.9999999 },
  { compute: 'int8', predictor: 'dense', least: 0.998 },
  { compute: 'int8', predictor: 'exact', least: 0.998 },
  { compute: 'int8', predictor: 'lowrank', least: 0.99 },
]);

for (const { compute, predictor, least } of SETTINGS) {
  test(`${compute}, ${predictor}: the module is near the program, with the same bits in any company`, async () => {
    const module = await compileBuild(pickBuild());
    const engine = await Engine.open(module, new Uint8Array(readFileSync(MODEL)), {
      compute,
      predictor,
    });
    assert.equal(engine.info().architecture, 'nomic-bert');
    const rows = engine.embed(TEXTS);
    const size = engine.dimensions;
    const args = ['-m', MODEL, '--compute', compute, '--predictor', predictor, '--format', 'f32'];
    const run = wisp(['embed', ...args], TEXTS.join('\n') + '\n');
    assert.equal(run.code, 0, run.err);
    const near = cosine(floatsOf(run.bytes), rows);
    assert.ok(near > least, `${near}`);
    TEXTS.slice(0, 10).forEach((text, i) =>
      assert.deepEqual(engine.embed([text]), rows.subarray(i * size, (i + 1) * size)),
    );
    engine.close();
  });
}
