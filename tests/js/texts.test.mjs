// SPDX-License-Identifier: Apache-2.0
// wisp-engine/text and wisp-engine/search in Node.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Embedder } from '../../js/node.js';
import { chunk } from '../../js/text.js';
import { ROOT, extent, smallModel } from './support.mjs';
import { chunkCases } from './texts/chunk-cases.mjs';
import { searchCases } from './texts/search-cases.mjs';
import { streamCases } from './texts/stream-cases.mjs';

for (const [name, cases] of Object.entries({ streamCases, chunkCases, searchCases })) {
  describe(name, () => {
    for (const [each, run] of Object.entries(cases)) {
      test(each, () => run({ Embedder, model: smallModel() }));
    }
  });
}

test('a million texts in bounded memory', () => {
  const script = `
    import { Embedder } from './js/node.js';
    import { embedStream } from './js/text.js';
    const { texts, model } = JSON.parse(process.argv[1]);
    const row = () => new Float32Array(128);
    const fake = { embed: async () => ({ row }) };
    const embedder = model ? await Embedder.load(model, { workers: 2 }) : fake;
    async function* source() {
      for (let i = 0; i < texts; i++) yield { text: 'text ' + i, load: new Array(100) };
    }
    let count = 0;
    let most = 0;
    for await (const { index } of embedStream(embedder, source(), { field: 'text' })) {
      if (index === count) count++;
      if (index % 1024 === 0) most = Math.max(most, process.memoryUsage().arrayBuffers);
    }
    await embedder.close?.();
    console.log(JSON.stringify({ count, most }));`;
  // All items would take 800 MB of the heap, and the rows of a million 512 MB beside it.
  const args = ['--max-old-space-size=48', '--input-type=module', '--eval', script];
  const viaWorkers = extent('texts of a stream through workers', 1e6, 2e4);
  for (const how of [{ texts: 1e6 }, { texts: viaWorkers, model: smallModel() }]) {
    const run = spawnSync(process.execPath, [...args, JSON.stringify(how)], { cwd: ROOT });
    assert.equal(run.status, 0, String(run.stderr));
    const { count, most } = JSON.parse(String(run.stdout));
    assert.equal(count, how.texts);
    assert.ok(most < 256e6, `${most} bytes of rows`);
  }
});

test('a page of this documentation in chunks of the default model', async () => {
  const embedder = await Embedder.load(undefined, { workers: 2 });
  const text = readFileSync(`${ROOT}docs/javascript.md`, 'utf8');
  const chunks = await chunk(embedder, text, { tokens: 128, overlap: 24 });
  const counts = await embedder.countTokens(chunks.map((each) => each.text));
  chunks.forEach((each, i) => {
    assert.equal(each.text, text.slice(each.start, each.end));
    assert.equal(each.tokens, counts[i]);
    assert.ok(each.tokens <= 128);
    assert.ok(i === 0 || (each.start <= chunks[i - 1].end && each.end > chunks[i - 1].end));
  });
  assert.equal(chunks.at(-1)?.end, text.length);
  const mean =
    counts.reduce((/** @type {number} */ sum, /** @type {number} */ each) => sum + each, 0) /
    counts.length;
  assert.ok(mean > 64, `chunks have ${mean} tokens`);
  await embedder.close();
});
