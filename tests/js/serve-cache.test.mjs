// SPDX-License-Identifier: Apache-2.0
// wisp serve and wisp embed with one vector cache: what one has embedded the other reads, with the same bits.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { post, serve, skip } from './serve-program.mjs';
import { floatsOf, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-vectors-'));
after(() => rmSync(folder, { recursive: true }));

const TEXTS = ['cats are nice', 'the bank', 'Ein Satz mit „Zeichen“ 😀', 'a'];
const CACHE = ['--vector-cache', join(folder, 'cache')];

/** Embeds lines by the program. @param {string[]} args */
function embed(...args) {
  const { bytes, err } = wisp(['embed', '--format', 'f32', '--stats', ...args], TEXTS.join('\n'));
  const found = /vector cache: (\d+) texts found, (\d+) computed/.exec(err);
  return { rows: [...floatsOf(bytes)], counts: found && [Number(found[1]), Number(found[2])] };
}

test(
  'a server reads what the program embedded, and the program what a server did',
  { skip },
  async (t) => {
    const plain = embed();
    assert.equal(plain.counts, null);
    assert.deepEqual(embed(...CACHE), { ...plain, counts: [0, 4] });
    assert.deepEqual(embed(...CACHE), { ...plain, counts: [4, 0] });

    const server = await serve(CACHE);
    t.after(server.stop);
    const inputs = [...TEXTS, 'another'];
    for (let i = 0; i < 2; i++) {
      const { body } = await post(server, '/embed', { inputs });
      assert.deepEqual([...Float32Array.from(body.slice(0, 4).flat())], plain.rows);
    }
    const short = await post(server, '/v1/embeddings', { input: 'a', dimensions: 8 });
    assert.equal(short.body.data[0].embedding.length, 8);
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    assert.match(metrics, /^wisp_cached_texts_total 9$/m);
    assert.match(metrics, /^wisp_texts_total 2$/m);
    const more = wisp(['embed', '--stats', '--format', 'f32', ...CACHE, '--text', 'another']);
    assert.match(more.err, /vector cache: 1 texts found, 0 computed/);
  },
);

test('a folder that cannot be used', { skip }, async () => {
  writeFileSync(join(folder, 'file'), '');
  const { code, err } = wisp(['embed', '--vector-cache', join(folder, 'file'), '--text', 'a']);
  assert.equal(code, 1);
  assert.match(err, /another vector cache/);
  await assert.rejects(serve(['--vector-cache', join(folder, 'file')]), /is not a folder/);
  assert.match(wisp(['embed', '--vector-cache', folder, '--vector-cache-size', '1K', '--text', 'a']).err, /8 rows of 1537 bytes take/); // prettier-ignore
  for (const command of ['embed', 'serve']) {
    const alone = wisp([command, '--vector-cache-size', '1M']);
    assert.equal(alone.code, 2);
    assert.match(alone.err, /--vector-cache-size requires --vector-cache/);
  }
});
