// SPDX-License-Identifier: Apache-2.0
// Long work of the calling thread is divided: how much is done in one task, and that a signal is heard between two.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Generator } from '../../js/generate-node.js';
import { Index } from '../../js/index-node.js';
import { conversationOf } from '../../js/calls/conversation.js';
import { atOnce, inSlices } from '../../js/platform/slices.js';
import { chunk } from '../../js/text.js';
import { byTicks, inTasks } from './slices.mjs';
import { ROOT } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-slices-'));
after(() => rmSync(folder, { recursive: true }));

/** A task has at most so many steps by a clock of ticks. */
const STEPS = 10;

test('a task ends after some milliseconds, and the first one is the caller’s', async () => {
  const { tasks, most, result } = await inTasks(async (count) => {
    let own = 0;
    const work = inSlices(
      (function* () {
        for (let i = 0; i < 100; i++, yield) count((own++, 1));
        return 'done';
      })(),
    );
    assert.ok(own > 1, 'it has begun');
    return work;
  });
  assert.equal(result, 'done');
  assert.ok(most <= STEPS, `${most} steps in a task`);
  assert.ok(tasks >= 100 / STEPS, `${tasks} tasks`);
});

describe('a conversation', () => {
  const MODEL = `${ROOT}models/wisp-stories.gguf`;
  const messagesOf = (/** @type {(n?: number) => void} */ count, /** @type {number} */ n) =>
    Array.from({ length: n }, (_, i) => ({
      get role() {
        count();
        return i % 2 ? 'assistant' : 'user';
      },
      content: 'Once upon a time',
    }));

  test('of many messages is read in tasks, in its turn, and hears a signal', async () => {
    const generator = await Generator.load(MODEL, { workers: 1, backend: 'wasm' });
    const options = { format: 'plain', maxTokens: 1 };
    const { tasks, most } = await inTasks(async (count) => {
      const messages = /** @type {any[]} */ (messagesOf(count, 5000));
      const long = generator.chat(messages, options).text();
      const ends = /** @type {string[]} */ ([]);
      const next = generator.generate('One', { maxTokens: 1 }).text();
      void long.catch(() => ends.push('long'));
      void next.then(() => ends.push('next'));
      messages.push({ role: 'nobody', content: 'after the call' });
      await assert.rejects(long, { code: 'argument', field: 'prompt' });
      await next;
      assert.deepEqual(ends, ['long', 'next']);
    });
    // A role is looked at when it is checked, when its length is and when it is written.
    assert.ok(most <= 3 * 16 * STEPS, `${most} roles in a task`);
    assert.ok(tasks >= 5000 / 16 / STEPS, `${tasks} tasks`);

    await byTicks(async () => {
      const controller = new AbortController();
      const { signal } = controller;
      const aborted = generator
        .chat(
          messagesOf(() => {}, 5000),
          { ...options, signal },
        )
        .text();
      setImmediate(() => controller.abort());
      await assert.rejects(aborted, { name: 'AbortError', code: 'cancelled' });
      const odd = [...messagesOf(() => {}, 5000), { content: 'no role' }];
      const late = generator.chat(/** @type {any} */ (odd), options).text();
      await assert.rejects(late, { code: 'argument', field: 'messages[5000].role' });
      const early = /** @type {any} */ ([{ content: 'no role' }, ...messagesOf(() => {}, 5000)]);
      assert.throws(() => generator.chat(early, options), { field: 'messages[0].role' });
    });
    const whole = await generator
      .chat(
        messagesOf(() => {}, 3),
        options,
      )
      .result();
    const again = await byTicks(() =>
      generator
        .chat(
          messagesOf(() => {}, 3),
          options,
        )
        .result(),
    );
    assert.deepEqual([whole.text, whole.promptTokens], [again.text, again.promptTokens]);
    await generator.close();
  });
});

describe('a long text', () => {
  const LENGTH = 1 << 16; // of what is written in a step
  const text = 'Once upon a time there was a girl. '.repeat(60_000);

  test('of a message is written in tasks', async () => {
    const { encode } = TextEncoder.prototype;
    const { tasks, most, result } = await inTasks(async (count) => {
      TextEncoder.prototype.encode = function (letters = '') {
        count(letters.length);
        return encode.call(this, letters);
      };
      const content = [{ type: 'text', text }];
      return inSlices(conversationOf([{ role: 'user', content }], { format: 'plain' }));
    }).finally(() => (TextEncoder.prototype.encode = encode));
    assert.ok(most <= STEPS * 2 * LENGTH, `${most} letters in a task`);
    assert.ok(tasks >= text.length / STEPS / 2 / LENGTH, `${tasks} tasks`);
    assert.ok(Buffer.from(result).includes(`"text":"${text}"}]}]`));
  });

  test('of a message is written as a short one is', () => {
    const pad = 'x'.repeat(LENGTH - 1);
    const letters = [
      '"\\\n\0é😀\\ud800'.repeat(9000),
      `${pad}😀${pad}`,
      `${pad}\ud800\ud800\udc00${pad}`,
    ];
    letters.push(
      '\ud800'.repeat(3 * LENGTH),
      `${pad}y`,
      `${pad}yz`,
      `${pad}\ud800`,
      'long text 0.5',
    );
    const messages = letters.flatMap((one) =>
      letters.map((other) => ({
        ...{ role: 'user', content: one, when: new Date(0), absent: undefined },
        parts: [{ text: other }, 'short', other],
      })),
    );
    const { random } = Math;
    const drawn = [0.5]; // with which the first text that is long has the place of one that is not
    Math.random = () => drawn.pop() ?? random();
    try {
      const bytes = Buffer.from(atOnce(conversationOf(messages, { date: '2026-01-01' })));
      const wanted = JSON.stringify(messages).replace(/\\\\|\\ud[89a-f]../g, (escape) =>
        escape === '\\\\' ? escape : '\ufffd',
      );
      assert.ok(bytes.subarray(bytes.indexOf('\n') + 1).equals(Buffer.from(wanted)));
      assert.deepEqual(drawn, []);
    } finally {
      Math.random = random;
    }
  });

  test('is chunked in tasks, and hears a signal', async () => {
    const { segment } = Intl.Segmenter.prototype;
    const embedder = /** @type {any} */ ({
      info: () => ({ maxTokens: 256 }),
      countTokens: async (/** @type {string[]} */ texts) =>
        texts.map(({ length }) => 2 + length / 4),
    });
    const { tasks, most, result } = await inTasks(async (count) => {
      Intl.Segmenter.prototype.segment = function (letters) {
        count(letters.length);
        return segment.call(this, letters);
      };
      return chunk(embedder, text);
    }).finally(() => (Intl.Segmenter.prototype.segment = segment));
    assert.ok(most <= STEPS * 8192, `${most} letters in a task`);
    assert.ok(tasks >= text.length / STEPS / 8192, `${tasks} tasks`);
    assert.equal(result.map((each) => each.text).join(''), text);
    await inTasks(async () => {
      const controller = new AbortController();
      const chunking = chunk(embedder, text, { signal: controller.signal });
      setImmediate(() => controller.abort());
      await assert.rejects(chunking, { name: 'AbortError', code: 'cancelled' });
    });
  });
});

describe('an index', () => {
  const DIMENSIONS = 384;
  const ROWS = 3000;
  /** @param {(n?: number) => void} count is called for each item that is looked at */
  const itemsOf = (count) =>
    Array.from({ length: ROWS }, (_, i) => ({
      get id() {
        count();
        return `row ${i}`;
      },
      vector: new Float32Array(DIMENSIONS).fill(1 + (i % 7)),
      metadata: { text: `é ${i}` },
    }));
  /** Counts the bytes that are copied. @param {(n?: number) => void} count */
  const countCopies = (count) => {
    const { set } = Uint8Array.prototype;
    Uint8Array.prototype.set = function (from, at) {
      count(from.length);
      return set.call(this, from, at);
    };
    return () => void (Uint8Array.prototype.set = set);
  };
  const MOST_BYTES = STEPS * 2 * 65536;

  test('is made, written, read, searched and saved in tasks of a few steps', async () => {
    const index = await Index.create({ dimensions: DIMENSIONS });
    const added = await inTasks(async (count) => index.add(itemsOf(count)));
    // Each item is looked at twice in a step.
    assert.ok(added.most <= 2 * STEPS, `${added.most} items in a task`);
    assert.equal(index.size, ROWS);
    const whole = new Uint8Array(index.toBytes());
    const path = join(folder, 'x.index');

    /** @type {[string, number, () => Promise<any>][]} */
    const works = [
      ['arrayBuffer', ROWS / 64 / STEPS, () => index.arrayBuffer()],
      ['open', ROWS / 64 / STEPS, () => Index.open(whole)],
      ['save', ROWS / 64 / STEPS, () => index.save(path)],
      ['load', ROWS / 64 / STEPS, () => Index.load(path)],
    ];
    const results = [];
    for (const [name, least, work] of works) {
      const { tasks, most, result } = await inTasks(async (count) => {
        const restore = countCopies(count);
        return work().finally(restore);
      });
      assert.ok(tasks >= least, `${name}: ${tasks} tasks`);
      assert.ok(most <= MOST_BYTES, `${name}: ${most} bytes in a task`);
      results.push(result);
    }
    assert.deepEqual(new Uint8Array(results[0]), whole);
    assert.deepEqual(readFileSync(path), Buffer.from(whole));
    for (const read of [results[1], results[3]]) {
      assert.deepEqual(new Uint8Array(read.toBytes()), whole);
    }
    const queries = Array.from({ length: 200 }, () => new Float32Array(DIMENSIONS).fill(1));
    const search = await inTasks(() => index.searchMany(queries, { k: 1 }));
    assert.ok(search.tasks >= queries.length / STEPS, `${search.tasks} tasks`);
  });

  test('hears a signal between two tasks, and has not changed', async () => {
    const index = await Index.create({ dimensions: DIMENSIONS });
    const bytes = await (async () => {
      const other = await Index.create({ dimensions: DIMENSIONS });
      await other.add(itemsOf(() => {}));
      return other.toBytes();
    })();
    await index.add({ id: 'one', vector: new Float32Array(DIMENSIONS).fill(1) });
    const before = new Uint8Array(index.toBytes());
    const full = await Index.open(bytes);
    const path = join(folder, 'aborted.index');
    /** @type {[string, (options: { signal: AbortSignal }) => Promise<any>][]} */
    const works = [
      [
        'add',
        (options) =>
          index.add(
            itemsOf(() => {}),
            options,
          ),
      ],
      ['open', (options) => Index.open(bytes, undefined, options)],
      ['arrayBuffer', (options) => full.arrayBuffer(options)],
      ['save', (options) => full.save(path, options)],
      ['searchMany', (options) => full.searchMany(Array(200).fill(new Float32Array(DIMENSIONS)), options)], // prettier-ignore
    ];
    for (const [name, work] of works) {
      await inTasks(async () => {
        const controller = new AbortController();
        const working = work({ signal: controller.signal });
        setImmediate(() => controller.abort());
        await assert.rejects(working, { name: 'AbortError', code: 'cancelled' }, name);
        await assert.rejects(work({ signal: AbortSignal.abort() }), { code: 'cancelled' }, name);
      });
    }
    assert.deepEqual(new Uint8Array(index.toBytes()), before);
    assert.throws(() => readFileSync(path), { code: 'ENOENT' });
    assert.equal((await full.search(new Float32Array(DIMENSIONS).fill(1), { k: 1 })).length, 1);
  });

  test('two calls that add take turns, and what is there stays until all is', async () => {
    const index = await Index.create({ dimensions: 1, kind: 'f32' });
    const some = (/** @type {number} */ value) =>
      Array.from({ length: 2000 }, (_, i) => ({ id: i % 1500, vector: [value], metadata: value }));
    await index.add(some(1));
    assert.equal(index.size, 1500);
    const seen = new Set();
    await inTasks(async () => {
      const adding = Promise.all([index.add(some(2)), index.add(some(3))]);
      let done = false;
      void adding.then(() => (done = true));
      for (let i = 0; !done; i++) {
        seen.add([...index.ids()].map((id) => index.get(id)).join('').length);
        assert.ok(new Set([...index.ids()].map((id) => index.get(id))).size === 1, 'one state');
        if (i === 20) assert.equal(index.remove([7]), 1);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await adding;
    });
    assert.ok(seen.size >= 2, 'seen before and after a removal');
    assert.equal(index.size, 1500);
    assert.equal(index.get(7), 3);
    assert.equal((await Index.open(index.toBytes())).size, 1500);
  });
});
