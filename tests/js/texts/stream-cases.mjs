// SPDX-License-Identifier: Apache-2.0
// embedStream, in Node and in pages: order, back-pressure, and every way to end early.
import { embedStream } from '../../../js/text.js';
import { check, inTime, pause, rejects } from '../pool/checks.mjs';

/**
 * Something like an embedder, whose rows are the lengths of the texts. It counts the texts under way.
 * @param {number} [ms] that a call takes
 * @returns {any}
 */
export function fakeEmbedder(ms = 0) {
  const fake = {
    underWay: 0,
    most: 0,
    calls: 0,
    aborted: 0,
    /** @type {any} */
    options: undefined,
    /** @type {any} */
    async embed(/** @type {string[]} */ texts, /** @type {any} */ options) {
      fake.options = options;
      fake.calls++;
      fake.underWay += texts.length;
      fake.most = Math.max(fake.most, fake.underWay);
      if (ms) await pause(ms);
      fake.underWay -= texts.length;
      if (options.signal.aborted) {
        fake.aborted++;
        throw new Error('aborted');
      }
      const at = texts.indexOf('FAIL');
      if (at >= 0) throw new Error('of the model');
      return { row: (/** @type {number} */ i) => Float32Array.of(texts[i].length) };
    },
  };
  return fake;
}

/**
 * An async source that counts what it gives and whether it was closed.
 * @param {number} count
 * @param {{ failAt?: number, stallAt?: number, pauseAt?: (i: number) => boolean }} [how]
 */
function sourceOf(count, { failAt, stallAt, pauseAt } = {}) {
  const seen = { given: 0, closed: 0 };
  const source = {
    ...seen,
    [Symbol.asyncIterator]() {
      return {
        async next() {
          if (pauseAt?.(source.given)) await pause(1);
          if (source.given === failAt) throw new TypeError('of the source');
          if (source.given === stallAt) await new Promise(() => {});
          if (source.given === count) return { done: true, value: undefined };
          return { done: false, value: `text ${source.given++}` };
        },
        async return() {
          source.closed++;
          return { done: true, value: undefined };
        },
      };
    },
  };
  return source;
}

/**
 * @template T
 * @param {AsyncIterable<T>} stream
 */
async function all(stream) {
  const values = [];
  for await (const value of stream) values.push(value);
  return values;
}

/** @type {Record<string, (env: { Embedder: typeof import('../../../js/node.js').Embedder, model: any }) => Promise<void>>} */
export const streamCases = {
  'the rows are those of embed, in order, from every kind of source': async ({
    Embedder,
    model,
  }) => {
    const embedder = await Embedder.load(model, { workers: 2 });
    try {
      const texts = Array.from({ length: 700 }, (_, i) => `water ${'word '.repeat(i % 7)}${i}`);
      const expected = await embedder.embed(texts);
      const stream = new ReadableStream({
        start(controller) {
          for (const text of texts) controller.enqueue(text);
          controller.close();
        },
      });
      const safari = { getReader: () => stream.tee()[0].getReader() };
      const sources = /** @type {any[]} */ ([
        texts,
        new Set(texts),
        (function* () {
          yield* texts;
        })(),
        (async function* () {
          yield* texts;
        })(),
        safari,
      ]);
      for (const source of sources) {
        const rows = await inTime(all(embedStream(embedder, source, { ahead: 100 })));
        check(rows.length === texts.length, `${rows.length} rows`);
        rows.forEach(({ index, item, row }, i) => {
          check(index === i && item === texts[i], `row ${i} is of ${index}, ${item}`);
          check(row.buffer.byteLength === row.byteLength, 'a row is a view of others');
          check(
            row.every((value, j) => value === expected.row(i)[j]),
            `row ${i} differs`,
          );
        });
      }
      const objects = texts.map((body, id) => ({ id, body }));
      const short = await inTime(
        all(embedStream(embedder, objects, { field: 'body', dimensions: 3 })),
      );
      check(short.length === 700 && short[9].item.id === 9 && short[9].row.length === 3, 'objects');
      check((await all(embedStream(embedder, []))).length === 0, 'rows of nothing');
      const [lone] = await all(embedStream(embedder, ['\ud800']));
      const [empty] = await all(embedStream(embedder, ['']));
      check(lone.row.length === empty.row.length, 'a lone surrogate or an empty text');
    } finally {
      await embedder.close();
    }
    await rejects(embedStream(embedder, ['a']).next(), 'closed');
  },

  'no more texts than asked for are under way, and no more are read': async () => {
    for (const ahead of [1, 2, 10, 64]) {
      const fake = fakeEmbedder();
      const source = sourceOf(500);
      let handedOut = 0;
      for await (const { index } of embedStream(fake, source, { ahead })) {
        check(index === handedOut++, 'out of order');
        check(source.given <= index + ahead, `${source.given} were read at ${index}`);
        if (index % 50 === 0) await pause(1); // a slow reader
      }
      check(handedOut === 500 && fake.most <= ahead, `${fake.most} under way`);
      check(source.closed === 0, 'a source that ended was closed');
    }
  },

  'a slow source is not waited for': async () => {
    const fake = fakeEmbedder();
    const stream = embedStream(fake, sourceOf(9, { stallAt: 3 }));
    for (let i = 0; i < 3; i++) check((await inTime(stream.next())).value?.index === i, 'no row');
    // The fourth item never comes, and leaving does not wait for it.
    const waiting = stream.next();
    check((await inTime(stream.return?.() ?? waiting)).done === true, 'not left');
    check((await inTime(waiting)).done === true, 'still waiting');
    const source = sourceOf(300, { pauseAt: (i) => i % 40 === 39 });
    check((await inTime(all(embedStream(fake, source)))).length === 300, 'rows are missing');
  },

  'leaving the loop closes the source and stops the work': async () => {
    for (const leave of ['break', 'throw', 'return']) {
      const fake = fakeEmbedder(5);
      const source = sourceOf(1e9);
      const stream = embedStream(fake, source, { ahead: 64 });
      const error = new Error('of the reader');
      const read = async () => {
        for await (const { index } of stream) {
          if (index < 20) continue;
          if (leave === 'throw') throw error;
          if (leave === 'return') return 'left';
          break;
        }
        return 'broken';
      };
      const end = await inTime(read().catch((reason) => reason));
      check(end === { break: 'broken', return: 'left', throw: error }[leave], String(end));
      check(source.closed === 1 && source.given < 200, `${leave}: closed ${source.closed} times`);
      const { calls } = fake;
      await pause(20);
      check(fake.calls === calls && fake.options.signal.aborted, 'work goes on');
      check((await stream.next()).done === true, 'there are more');
    }
    // A stream that nobody reads has not touched its source.
    const source = sourceOf(5);
    await embedStream(fakeEmbedder(), source).return?.();
    check(source.given === 0 && source.closed === 0, 'the source was opened');
  },

  'aborting rejects at once, closes the source and keeps what was handed out': async () => {
    for (const stallAt of [undefined, 30]) {
      const fake = fakeEmbedder(2);
      const source = sourceOf(1e9, stallAt ? { stallAt } : {});
      const abort = new AbortController();
      const rows = /** @type {any[]} */ ([]);
      const read = async () => {
        for await (const each of embedStream(fake, source, { signal: abort.signal, ahead: 16 })) {
          rows.push(each);
          if (rows.length === 30) setTimeout(() => abort.abort(new Error('enough')), 5);
        }
      };
      const error = await rejects(read(), 'cancelled');
      check(error.name === 'AbortError' && error.cause.message === 'enough', error.message);
      check(source.closed === 1, `closed ${source.closed} times`);
      rows.forEach(({ index, row }, i) =>
        check(index === i && row[0] === `text ${i}`.length, `row ${i}`),
      );
      check(rows.length >= 30, 'rows are missing');
    }
    const signal = AbortSignal.abort();
    const source = sourceOf(5);
    await rejects(embedStream(fakeEmbedder(), source, { signal }).next(), 'cancelled');
    check(source.given === 0, 'an aborted stream reads');
  },

  'an error comes after the rows before it, unchanged, and the source is closed': async () => {
    const broken = sourceOf(100, { failAt: 70 });
    for (const [
      source,
      message,
      before,
      closed,
    ] of /** @type {[any, RegExp, number, number][]} */ ([
      [broken, /^of the source$/, 70, 0],
      [['a', 'b', 7, 'c'], /item 2: number 7 is not a string/, 2, 0],
      [['a', undefined], /item 1: undefined is not a string/, 1, 0],
      [['a', null, 'b'], /item 1: null is not a string/, 1, 0],
    ])) {
      const rows = [];
      const read = async () => {
        for await (const each of embedStream(fakeEmbedder(), source)) rows.push(each);
      };
      const error = await inTime(read().catch((reason) => reason));
      check(message.test(error.message), `${error}`);
      check(rows.length === before, `${rows.length} rows before ${error.message}`);
      check((source.closed ?? 0) === closed, `closed ${source.closed} times`);
    }
    const objects = [{ text: 'a' }, { text: 3 }];
    await rejects(
      all(embedStream(fakeEmbedder(), objects, { field: 'text' })),
      'argument',
      /item 1, text: number .* is not a string/,
    );
    const isClosed = { value: false };
    const generated = (function* () {
      try {
        yield 'a';
        yield 'FAIL';
        for (;;) yield 'b';
      } finally {
        isClosed.value = true;
      }
    })();
    const failed = await inTime(all(embedStream(fakeEmbedder(), generated)).catch((e) => e));
    check(failed.message === 'of the model' && isClosed.value, `${failed}`);
  },

  'wrong arguments are refused before anything is read': async () => {
    const source = sourceOf(5);
    const fake = fakeEmbedder();
    for (const [embedder, given, options, field] of /** @type {any[][]} */ ([
      [null, source, {}, 'embedder'],
      [{}, source, {}, 'embedder'],
      [fake, 'a text', {}, 'source'],
      [fake, null, {}, 'source'],
      [fake, undefined, {}, 'source'],
      [fake, 7, {}, 'source'],
      [fake, {}, {}, 'source'],
      [fake, source, null, 'options'],
      [fake, source, { batch: 3 }, 'batch'],
      [fake, source, { ahead: 0 }, 'ahead'],
      [fake, source, { ahead: Infinity }, 'ahead'],
      [fake, source, { field: 3 }, 'field'],
      [fake, source, { signal: {} }, 'signal'],
    ])) {
      try {
        embedStream(embedder, given, options);
      } catch (error) {
        const { code, field: found } = /** @type {any} */ (error);
        check(code === 'argument' && found === field, `${field}: ${error}`);
        continue;
      }
      throw new Error(`${field} was accepted`);
    }
    check(source.given === 0, 'the source was read');
  },
};
