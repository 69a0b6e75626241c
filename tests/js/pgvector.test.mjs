// SPDX-License-Identifier: Apache-2.0
// The SQL of docs/indexes.md in PostgreSQL with pgvector, both in WebAssembly.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import { blocksOf } from './guide/blocks.mjs';
import { ROOT, floatsOf, wisp } from './support.mjs';

const DIMENSIONS = 384;
const TEXTS = ['A man is eating food.', 'A woman plays the violin.', 'The cat sleeps.'];

/** The statements of the page, with the parameters as PostgreSQL itself numbers them. */
const code = blocksOf(readFileSync(`${ROOT}docs/indexes.md`, 'utf8'))
  .filter(({ section }) => section === 'pgvector')
  .map((block) => block.code)
  .join('\n');
const [extension, table, insert, index, query] = [
  ...code.matchAll(/(?:execute\(|query = )"([^"]+)"/g),
].map(([, sql]) => {
  let parameters = 0;
  return sql.replaceAll('%s', () => `$${++parameters}`);
});

/** @param {string[]} texts */
function embed(texts) {
  const values = floatsOf(wisp(['embed', '--format', 'f32'], texts.join('\n')).bytes);
  return texts.map((_, i) => values.subarray(i * DIMENSIONS, (i + 1) * DIMENSIONS));
}

test("pgvector finds by the page's statements what the products of vectors say", async () => {
  const db = await PGlite.create({ extensions: { vector } });
  try {
    await db.exec(extension);
    await db.exec(table);
    const rows = embed(TEXTS);
    for (const [i, text] of TEXTS.entries())
      await db.query(insert, [i, text, JSON.stringify([...rows[i]])]);
    const [wanted] = embed(['someone has a meal']);
    const expected = TEXTS.map((text, i) => ({
      text,
      similarity: rows[i].reduce((sum, x, j) => sum + x * wanted[j], 0),
    })).sort((a, b) => b.similarity - a.similarity);
    // First by comparing all rows, then by the index.
    for (const isIndexed of [false, true]) {
      if (isIndexed) {
        await db.exec(index);
        await db.exec('set enable_seqscan = off');
      }
      const given = [JSON.stringify([...wanted])];
      const plan = await db.query(`explain ${query}`, given);
      assert.equal(/Index Scan/.test(JSON.stringify(plan.rows)), isIndexed);
      const found = /** @type {{ text: string, distance: number }[]} */ (
        (await db.query(query, given)).rows
      );
      assert.deepEqual(
        found.map(({ text }) => text),
        expected.slice(0, 2).map(({ text }) => text),
      );
      for (const [i, { distance }] of found.entries())
        assert.ok(Math.abs(1 - distance - expected[i].similarity) < 1e-5, `${distance}`);
    }
    assert.equal(expected[0].text, TEXTS[0]);
  } finally {
    await db.close();
  }
});
