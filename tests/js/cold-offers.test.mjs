// SPDX-License-Identifier: Apache-2.0
// Cold rows that are handed to a worker that did not ask for them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offerRows } from '../../js/ranges/cold-offers.js';
import { Ranges } from '../../js/ranges/cold-ranges.js';

const SIZE = 5_500_000;
const FIRST = 300_001;
const CHUNK = 65536;

/** A file whose bytes are here. */
function rangesHere() {
  const ranges = new Ranges(/** @type {any} */ ({ name: 'file', size: SIZE }), 0);
  const bytes = Uint8Array.from({ length: SIZE }, (_, i) => i * 7 + (i >> 8));
  ranges.bytes.write(0, bytes);
  ranges.bytes.mark([0, SIZE]);
  return { ranges, bytes };
}

test('a worker gets the next part when it has taken the last, and each row whole', async () => {
  const { ranges, bytes } = rangesHere();
  /** @type {import('../../types/protocol.js').Piece[]} */
  const handed = [];
  /** @type {(value?: unknown) => void} */
  let take = () => {};
  const offering = offerRows(
    ranges,
    { first: FIRST, end: SIZE, chunkBytes: CHUNK },
    new AbortController().signal,
    (offer) => {
      handed.push(...offer.pieces);
      return new Promise((resolve) => (take = resolve));
    },
  );
  for (let parts = 1; parts <= 5; parts++) {
    for (let turn = 0; turn < 10; turn++) await new Promise((done) => setImmediate(done));
    assert.equal(handed.length, parts, 'the worker has not taken the last part');
    take();
  }
  await offering;
  assert.equal(handed[0].offset, FIRST);
  const ends = handed.map(({ offset, bytes: part }) => offset + part.length);
  assert.equal(ends.at(-1), SIZE);
  handed.forEach(({ offset, bytes: part }, i) => {
    assert.deepEqual(Buffer.compare(part, bytes.subarray(offset, ends[i])), 0);
    // A row of 64 KiB with the chunks in which it lies is within one of two parts.
    if (i > 0) assert.ok(ends[i - 1] - offset >= 65536 + 2 * CHUNK);
  });
});

test('nothing more is handed to a worker that has ended', async () => {
  const { ranges } = rangesHere();
  const stop = new AbortController();
  let parts = 0;
  const offering = offerRows(
    ranges,
    { first: FIRST, end: SIZE, chunkBytes: CHUNK },
    stop.signal,
    async () => {
      // prettier-ignore
      if (++parts === 2) stop.abort();
    },
  );
  await assert.rejects(offering, { code: 'cancelled' });
  assert.equal(parts, 2);
});

test('a worker that ends before it has taken a part leaves no promise behind', async () => {
  const { ranges } = rangesHere();
  const stop = new AbortController();
  const offering = offerRows(
    ranges,
    { first: FIRST, end: SIZE, chunkBytes: CHUNK },
    stop.signal,
    () => {
      setImmediate(() => stop.abort());
      return new Promise(() => {});
    },
  );
  await assert.rejects(offering, { code: 'cancelled' });
});
