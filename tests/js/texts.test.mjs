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

/**
 * Runs a script with a heap of 32 MB beside what Node itself takes.
 * @param {string} script
 */
function runSmall(script) {
  const args = ['--max-old-space-size=32', '--input-type=module', '--eval', script];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT });
  assert.equal(status, 0, String(stderr));
  return String(stdout).trim();
}

test('a million short texts pass through a heap of 32 MB', () => {
  const imports = `
    import { embedStream } from './js/text.js';
    import { fakeEmbedder } from './tests/js/texts/stream-cases.mjs';`;
  const count = `
    let sum = 0;
    for await (const { index, row } of stream) if (index === sum && row.length > 0) sum++;
    console.log(sum);`;
  // The rows of all of them would take 1.5 GB.
  const fake = `${imports}
    const wide = { row: () => new Float32Array(384) };
    const stream = embedStream({ embed: async () => wide }, (async function* () {
      for (let i = 0; i < 1e6; i++) yield 'text ' + i;
    })());${count}`;
  assert.equal(runSmall(fake), '1000000');
  const texts = extent('texts of a stream through workers', 1e6, 2e4);
  const real = `${imports}
    import { Embedder } from './js/node.js';
    const embedder = await Embedder.load(${JSON.stringify(smallModel())}, { workers: 2 });
    const stream = embedStream(embedder, (function* () {
      for (let i = 0; i < ${texts}; i++) yield { text: 'text ' + i, load: new Array(100) };
    })(), { field: 'text' });${count}
    await embedder.close();`;
  assert.equal(runSmall(real), String(texts));
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
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  assert.ok(mean > 64, `chunks have ${mean} tokens`);
  await embedder.close();
});
