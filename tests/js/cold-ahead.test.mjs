// SPDX-License-Identifier: Apache-2.0
// Models by range: token embeddings of texts that no worker has yet come with those that a worker waits for.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, describe, test } from 'node:test';
import { Ahead } from '../../js/ranges/cold-ahead.js';
import { HttpFile } from '../../js/ranges/cold-http.js';
import { RangeSet, Ranges, joinRanges } from '../../js/ranges/cold-ranges.js';
import { EmbedJob } from '../../js/calls/job.js';
import { Embedder } from '../../js/node.js';
import { embedStream } from '../../js/text.js';
import { serveRanges } from './range-server.mjs';
import { withoutChunks } from './rechunk.mjs';
import { smallColdTokensModel } from './support.mjs';

const path = smallColdTokensModel();
const SIZES = { gap: 0, first: 4096, complete: false, store: false };

/** @type {import('./range-server.mjs').RangeServer} */
let server;
/** @type {Buffer} the model, whose ranges are rows */
let bytes;
/** Texts of which each has a token of its own, in the order of the vocabulary. @type {string[]} */
let texts = [];
/** @type {import('../../js/calls/rows.js').Rows} */
let expected;

before(async () => {
  bytes = withoutChunks(readFileSync(path));
  server = await serveRanges(bytes);
  const whole = await Embedder.load(path, { workers: 1, backend: 'wasm' });
  const letters = Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i));
  const words = letters.flatMap((a) => [a, ...letters.map((b) => `${a}${b}`)]);
  const seen = new Set();
  for (const word of [...words, ...Array.from({ length: 200 }, (_, i) => `${i}`)]) {
    const ids = [...(await whole.tokenize(word))].slice(1, -1);
    if (ids.every((id) => seen.has(id))) continue;
    for (const id of ids) seen.add(id);
    texts.push(word);
  }
  assert.ok(texts.length > 20, `${texts.length} texts`);
  // Long enough that each batch has a few.
  texts = texts.map((word) => `${word} `.repeat(60).trim());
  expected = await whole.embed(texts);
  await whole.close();
});
after(() => server.close());

/** @type {Embedder[]} */
const opened = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((embedder) => embedder.destroy()));
  server.fault = undefined;
});

/** @param {any} [options] */
async function load(options) {
  server.bytes = bytes;
  server.etag = '"chunks"';
  const embedder = await Embedder.load(server.url, {
    workers: 1,
    cold: { mode: 'wait', ...SIZES },
    ...options,
  });
  opened.push(embedder);
  server.forget();
  return embedder;
}

/** @param {Embedder} embedder @returns {import('../../types/index.js').ColdTotals} */
const coldOf = (embedder) => /** @type {any} */ (embedder.stats()).cold;

/** Counts how often a worker waits for bytes that are not here. @param {import('node:test').TestContext} t */
function countWaits(t) {
  const counted = { waits: 0 };
  const { need } = Ranges.prototype;
  t.mock.method(
    Ranges.prototype,
    'need',
    /** @this {Ranges} */ function (/** @type {any} */ ranges, /** @type {any} */ signal) {
      const isHere = ranges.every(
        (/** @type {any} */ each) => this.bytes.missing(each).length === 0,
      );
      if (!isHere) counted.waits++;
      return need.call(this, ranges, signal);
    },
  );
  return counted;
}

/** Asserts that no byte was asked for twice. */
function assertOnce() {
  const ranges = [...server.asked].sort((a, b) => a[0] - b[0]);
  ranges.forEach(([from], i) => {
    if (i > 0) assert.ok(from > ranges[i - 1][1], `${ranges[i - 1]} and ${from}`);
  });
}

/** Bytes that were asked for. */
const askedBytes = () => server.asked.reduce((sum, [from, to]) => sum + to + 1 - from, 0);

for (const [workers, options] of /** @type {[number, object][]} */ ([
  [0, {}],
  [1, {}],
  [2, {}],
  [2, { worker: new URL('../../js/cold-worker-node.js', import.meta.url) }],
])) {
  const own = 'worker' in options ? ' with memory of their own' : '';
  test(`a large call waits less often than it has batches; ${workers} workers${own}`, async (t) => {
    // Each text by itself, one after the other.
    const alone = await load({ workers: 0 });
    const single = countWaits(t);
    for (const [i, text] of texts.entries()) {
      const rows = await alone.embed(text);
      assert.deepEqual(rows.row(0), expected.row(i));
    }
    const wanted = askedBytes();
    assert.ok(single.waits > 20, `${single.waits} waits`);
    t.mock.restoreAll();

    const embedder = await load({ workers, ...options });
    const counted = countWaits(t);
    let seed = 7;
    server.fault = (_, next) => {
      seed = (seed * 48271) % 2147483647;
      setTimeout(next, 20 + (seed % 7));
    };
    assert.deepEqual(await embedder.embed(texts), expected);
    assert.ok(
      4 * counted.waits < single.waits,
      `${counted.waits} waits instead of ${single.waits}`,
    );
    assertOnce();
    assert.equal(askedBytes(), wanted, 'the bytes of all texts, and no others');
  });
}

test('many calls of a text each wait together', async (t) => {
  const embedder = await load();
  const counted = countWaits(t);
  server.fault = (_, next) => void setTimeout(next, 20);
  const rows = await Promise.all(texts.map((text) => embedder.embed(text)));
  rows.forEach((row, i) => assert.deepEqual(row.row(0), expected.row(i)));
  assert.ok(counted.waits <= 8, `${counted.waits} waits`);
  assertOnce();
});

test('a call of one text asks for what it needs alone', async () => {
  const embedder = await load();
  await embedder.embed(texts[0]);
  const first = askedBytes();
  const again = await load();
  await again.embed([texts[0], texts[0]]);
  assert.equal(askedBytes(), first);
});

test('a stream asks for no more than texts that it has read', async () => {
  const all = await load();
  await all.embed(texts.slice(0, 8));
  const wanted = askedBytes();
  const embedder = await load();
  let read = 0;
  const source = (function* () {
    for (const text of texts) {
      read++;
      yield text;
    }
  })();
  for await (const { row, index } of embedStream(embedder, source, { ahead: 8 })) {
    assert.deepEqual(row, expected.row(index));
    break;
  }
  assert.equal(read, 8);
  assert.ok(askedBytes() <= wanted);
});

test('a call that is aborted asks for nothing more', async () => {
  const embedder = await load();
  const stop = new AbortController();
  server.fault = () => stop.abort();
  await assert.rejects(embedder.embed(texts, { signal: stop.signal }), { code: 'cancelled' });
  while (server.open > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const asked = server.asked.length;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(server.asked.length, asked);
  server.fault = undefined;
  assert.deepEqual(await embedder.embed(texts), expected);
});

test('an answer that comes when its call was aborted asks for nothing', async (t) => {
  const embedder = await load({ workers: 0 });
  const stop = new AbortController();
  const { need } = Ranges.prototype;
  t.mock.method(
    Ranges.prototype,
    'need',
    /** @this {Ranges} */ function (/** @type {any} */ ranges, /** @type {any} */ signal) {
      stop.abort();
      return need.call(this, ranges, signal);
    },
  );
  await assert.rejects(embedder.embed(texts, { signal: stop.signal }), { code: 'cancelled' });
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(server.asked.length, 0);
});

test('what a later text needs and does not come fails only when that text is computed', async () => {
  const last = await load();
  await last.embed(texts.at(-1) ?? '');
  const [[failing]] = server.asked.slice(-1);
  const embedder = await load();
  server.fault = (response, next, [from, to]) =>
    from <= failing && failing <= to ? void response.writeHead(404).end() : next();
  /** @type {any} */
  const error = await embedder.embed(texts).catch((thrown) => thrown);
  assert.equal(error.code, 'not_found');
  server.fault = undefined;
  assert.deepEqual(await embedder.embed(texts), expected);
  assert.equal(embedder.stats().lostWorkers, 0);
});

test('with a limit of memory nothing comes ahead', async () => {
  const refused = await load({ memory: 1 }).catch((error) => error);
  const memory = Number(/the least is (\d+) bytes/.exec(refused.message)?.[1]);
  const embedder = await load({ memory });
  assert.deepEqual(await embedder.embed(texts), expected);
  assert.equal(coldOf(embedder).presentBytes, coldOf(embedder).hotBytes);
});

test('prompts are before the texts that are asked for', async () => {
  const prompt = `${texts[3].slice(0, 2)} `;
  const alone = await load();
  await alone.embed(texts.slice(0, 40), { prompt });
  const wanted = askedBytes();
  const one = await load();
  for (const text of texts.slice(0, 40)) await one.embed(text, { prompt });
  assert.equal(askedBytes(), wanted);
});

describe('texts of waiting calls', () => {
  /** @param {number} count @param {number} letters */
  const jobOf = (count, letters) =>
    new EmbedJob(
      Array.from({ length: count }, (_, i) => `${i}`.padEnd(letters)),
      {
        options: { prompt: 'p: ' },
        dimensions: 1,
        maxTokens: 512,
      },
    );

  /** @param {EmbedJob[]} jobs */
  function watched(jobs) {
    const ahead = new Ahead();
    for (const job of jobs) {
      job.promise.catch(() => {});
      ahead.submitted(job);
    }
    return ahead;
  }

  test('each is asked about once, and not too many at a time', () => {
    const job = jobOf(5000, 100);
    const ahead = watched([job]);
    const [first] = ahead.next();
    assert.equal(first.prompt, 'p: ');
    assert.equal(first.texts.length, Math.ceil((1 << 17) / 100));
    const [second] = ahead.next();
    assert.equal(second.texts[0], `${first.texts.length}`.padEnd(100));
    assert.equal(first.texts.length + second.texts.length, 2048, 'beyond those that workers have');
    assert.deepEqual(ahead.next(), []);
    while (job.waiting > 4900) job.take(256);
    const [third] = ahead.next();
    assert.equal(third.texts.length, 5000 - job.waiting);
  });

  test('none is asked about once workers have it', () => {
    const job = jobOf(5000, 100);
    const ahead = watched([job]);
    while (job.waiting > 3000) job.take(256);
    const [{ texts: asked }] = ahead.next();
    assert.ok(Number(asked[0]) >= 2000 - 1024, `text ${asked[0]}`);
    while (job.waiting > 0) job.take(256);
    assert.deepEqual(ahead.next(), []);
  });

  test('calls follow each other, and those that have ended are forgotten', async () => {
    const jobs = [jobOf(3, 10), jobOf(2, 10), jobOf(1, 10)];
    const ahead = watched(jobs);
    const { signal } = ahead;
    jobs[1].fail(new Error('no longer'));
    await Promise.resolve();
    await Promise.resolve();
    assert.deepEqual(
      ahead.next().map(({ texts: of }) => of.length),
      [3, 1],
    );
    assert.equal(signal.aborted, false);
    for (const job of jobs) job.fail(new Error('no longer'));
    await Promise.resolve();
    await Promise.resolve();
    assert.deepEqual(ahead.next(), []);
    assert.equal(signal.aborted, true);
    assert.equal(ahead.signal.aborted, false, 'of later calls');
  });
});

describe('ranges that nobody waits for yet', () => {
  test('come last, in at most three requests at a time', async () => {
    server.bytes = bytes;
    server.forget();
    /** @type {(() => void)[]} */
    const answers = [];
    server.fault = (_, next) => void answers.push(next);
    const ranges = new Ranges(new HttpFile(server.url), 0);
    const { signal } = new AbortController();
    const early = Array.from(
      { length: 8 },
      (_, i) => /** @type {[number, number]} */ ([100 * i, 100 * i + 50]),
    );
    const ahead = ranges.fetchAhead(early, 0, signal);
    const until = async (/** @type {number} */ count) => {
      while (answers.length < count) await new Promise((resolve) => setTimeout(resolve, 1));
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.equal(answers.length, count);
    };
    await until(3);
    const need = ranges.need([[750, 760], [700, 720]], signal); // prettier-ignore
    await until(4);
    assert.deepEqual(server.asked[3], [700, 759], 'joined with what comes ahead beside it');
    answers[3]();
    const [{ bytes: found }] = await need;
    assert.deepEqual(Buffer.from(found), bytes.subarray(750, 760));
    server.fault = undefined;
    answers.slice(0, 3).forEach((answer) => answer());
    await ahead;
    assert.ok(early.every((range) => ranges.absent(range).length === 0));
    assert.equal(ranges.isIdle, true);
  });

  test('are aborted with the calls that would need them', async () => {
    server.forget();
    server.fault = () => {};
    const ranges = new Ranges(new HttpFile(server.url), 0);
    const stop = new AbortController();
    const ahead = ranges.fetchAhead([[0, 10]], 0, stop.signal);
    while (server.open === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    stop.abort();
    await assert.rejects(ahead, { code: 'cancelled' });
    while (server.open > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.equal(ranges.isIdle, true);
  });

  test('are joined over gaps', () => {
    assert.deepEqual(
      joinRanges([[30, 40], [0, 10], [5, 8], [12, 20]], 2), // prettier-ignore
      [
        [0, 20],
        [30, 40],
      ],
    );
    assert.deepEqual(joinRanges([], 9), []);
  });

  const MEGABYTE = 1 << 20;

  test('are joined no further than one request goes, and have no byte twice', () => {
    const [a, b, c] = [400_000, 800_000, 1_200_000];
    assert.deepEqual(
      joinRanges([[a, b], [0, a], [b, c], [a, c], [10, 20]], 0), // prettier-ignore
      [
        [0, b],
        [b, c],
      ],
    );
    const long = /** @type {[number, number]} */ ([0, 3 * MEGABYTE]);
    assert.deepEqual(joinRanges([[...long], [5, 9]], 0), [long]);
  });

  /** A file whose requests take a turn each, and are written down. */
  function fileOf() {
    /** @type {[number, number][]} */
    const asked = [];
    const file = {
      name: 'file',
      async read(/** @type {[number, number]} */ [from, to], /** @type {any} */ into) {
        asked.push([from, to]);
        await new Promise((resolve) => setImmediate(resolve));
        into.write(from, new Uint8Array(to - from));
      },
    };
    return { asked, ranges: new Ranges(/** @type {any} */ (file), 64) };
  }

  test('that lie side by side are several requests: a text waits for the one that has its bytes', async () => {
    const { asked, ranges } = fileOf();
    const chunk = 1 << 16;
    const chunks = Array.from(
      { length: 80 },
      (_, i) => /** @type {[number, number]} */ ([i * chunk, (i + 1) * chunk]),
    );
    await ranges.fetchAhead(chunks, 0, new AbortController().signal);
    assert.ok(asked.every(([from, to]) => to - from <= MEGABYTE));
    assert.equal(asked.length, 5);
  });

  test('are looked through once for all requests, not once for each', async (t) => {
    const { asked, ranges } = fileOf();
    const { signal } = new AbortController();
    const count = 1000;
    const rows = Array.from({ length: count }, (_, i) => {
      const row = (i * 7919) % count;
      return /** @type {[number, number]} */ ([800 * row, 800 * row + 400]);
    });
    let looks = 0;
    const { missing } = RangeSet.prototype;
    t.mock.method(
      RangeSet.prototype,
      'missing',
      /** @this {RangeSet} */ function (/** @type {[number, number]} */ range) {
        looks++;
        return missing.call(this, range);
      },
    );
    const early = ranges.fetchAhead([...rows], 0, signal);
    for (let i = 0; i < count; i += 100) await ranges.need(rows.slice(i, i + 10), signal);
    await early;
    assert.equal(new Set(asked.map(String)).size, asked.length);
    assert.ok(looks < 50 * count, `${looks} looks for ${count} ranges`);
  });
});
