// SPDX-License-Identifier: Apache-2.0
// Models whose cold neurons come by range: the same bits as with the whole model, whatever a server sends.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer as createSecureServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { HttpFile } from '../../js/ranges/cold-http.js';
import { Ranges } from '../../js/ranges/cold-ranges.js';
import { Generator } from '../../js/generate-node.js';
import { load as loadModel } from '../../js/calls/load.js';
import { Embedder } from '../../js/node.js';
import { makeCertificate } from './certificate.mjs';
import { shortTexts } from './pool/texts.mjs';
import { rangeFaults } from './range-faults.mjs';
import { serveRanges } from './range-server.mjs';
import { smallColdModel, smallColdTokensModel, smallModel } from './support.mjs';

const TEXTS = shortTexts(40, 3);
const path = smallColdModel();
const bytes = readFileSync(path);
const folder = mkdtempSync(join(tmpdir(), 'wisp-cold-'));
after(() => rmSync(folder, { recursive: true }));

/** @typedef {import('./range-server.mjs').RangeServer} RangeServer */

/** @type {RangeServer} */
let server;
/** @type {import('../../js/calls/rows.js').Rows} */
let expected;
before(async () => {
  server = await serveRanges(bytes);
  const whole = await Embedder.load(path, {
    backend: 'wasm',
    workers: 1,
    predictor: 'lowrank',
  });
  expected = await whole.embed(TEXTS);
  await whole.close();
});
after(() => server.close());

function reset() {
  server.bytes = bytes;
  server.etag = '"one"';
  server.fault = undefined;
  server.forget();
}

/** Requests are small, so that there are several. */
const SIZES = { gap: 64, first: 4096, complete: false, store: false };

/** @type {Embedder[]} */
const opened = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((embedder) => embedder.destroy()));
});

/**
 * Loads a model; the end of a test closes it if load() is called.
 * @param {any} [options]
 * @param {any} [source]
 */
async function open(options, source = server.url) {
  const cold = { mode: 'wait', ...SIZES };
  return Embedder.load(source, { cold, workers: 1, ...options });
}

/** @type {typeof open} */
async function load(...given) {
  const embedder = await open(...given);
  opened.push(embedder);
  return embedder;
}

/**
 * @param {Embedder} embedder
 * @returns {import('../../types/index.js').ColdTotals}
 */
const coldOf = (embedder) => /** @type {any} */ (embedder.stats()).cold;

/** @param {{ code: string, message: RegExp }} about */
const failure =
  ({ code, message }) =>
  (/** @type {any} */ error) => {
    assert.equal(error.name, 'WispError');
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  };

/** Asserts that no byte was asked for twice. */
function assertOnce() {
  const ranges = [...server.asked].sort((a, b) => a[0] - b[0]);
  ranges.forEach(([from, to], i) => {
    assert.ok(from <= to);
    if (i > 0) assert.ok(from > ranges[i - 1][1], `${ranges[i - 1]} and ${from}`);
  });
}

/** Answers come late, and not in the order of the requests. */
function shuffle() {
  let seed = 7;
  server.fault = (_, next) => {
    seed = (seed * 48271) % 2147483647;
    setTimeout(next, seed % 13);
  };
}

describe('cold neurons', () => {
  for (const workers of [0, 1, 4]) {
    test(`with ${workers} workers rows have the bits of the whole model, and each byte comes once`, async () => {
      reset();
      shuffle();
      const embedder = await load({ workers });
      assert.ok(server.asked.length > 2, 'the header is longer than the first request');
      const { hotBytes, fileBytes, mode } = coldOf(embedder);
      assert.equal(mode, 'wait');
      assert.equal(fileBytes, bytes.length);
      assert.equal(embedder.info().modelBytes, bytes.length);
      assert.ok(hotBytes < bytes.length);
      const halves = await Promise.all([0, 20].map((at) => embedder.embed(TEXTS.slice(at, at + 20)))); // prettier-ignore
      const singles = await Promise.all(TEXTS.map((text) => embedder.embed(text)));
      const size = embedder.dimensions;
      TEXTS.forEach((_, i) => {
        const row = expected.row(i);
        assert.deepEqual(halves[i < 20 ? 0 : 1].row(i % 20), row);
        assert.deepEqual(singles[i].subarray(0, size), row);
      });
      assertOnce();
      const { misses, warmNeurons, warmTokens, neurons, hotNeurons, skipped, requests } =
        coldOf(embedder);
      assert.ok(warmTokens > 0);
      assert.ok(misses > 0 && warmNeurons > 0 && warmNeurons <= neurons - hotNeurons);
      const { reads, readBytes, prefetched, prefetchedUsed, prefetchedWasted } = coldOf(embedder);
      assert.ok(reads > 0 && readBytes > 0);
      // A chunk has more rows than those that were asked for, and later texts need some of them.
      assert.ok(prefetched > 0 && prefetchedUsed <= prefetched && prefetchedWasted === 0);
      assert.equal(skipped, 0);
      assert.equal(requests, server.asked.length);
      for (const headers of server.headers)
        assert.match(String(headers['accept-encoding']), /^identity(, identity)?$/);
    });
  }

  test('with the number of its hot bytes a model opens after one request; progress ends there', async () => {
    reset();
    const { hotBytes } = coldOf(await load());
    server.forget();
    /** @type {any[]} */
    const seen = [];
    const onProgress = (/** @type {any} */ { phase, loaded, total }) =>
      void (phase === 'model' && seen.push([loaded, total]));
    const embedder = await load({ cold: { mode: 'wait', ...SIZES, first: hotBytes }, onProgress });
    assert.deepEqual(server.asked, [[0, hotBytes - 1]]);
    assert.ok(seen.every(([loaded], i) => i === 0 || loaded >= seen[i - 1][0]));
    assert.deepEqual(seen.at(-1), [hotBytes, hotBytes]);
    assert.deepEqual(await embedder.embed(TEXTS), expected);
    const mine = new TypeError('mine');
    const throws = () => {
      throw mine;
    };
    await assert.rejects(load({ onProgress: throws }), mine);
  });

  test('what is wanted by several is requested once', async () => {
    reset();
    const file = new HttpFile(server.url);
    const ranges = new Ranges(file, 0);
    const { signal } = new AbortController();
    await ranges.need([[0, 100]], signal);
    await Promise.all([
      ranges.need([[50, 300]], signal),
      ranges.need(
        [
          [200, 400],
          [390, 500],
        ],
        signal,
      ),
    ]);
    assertOnce();
    assert.deepEqual(Buffer.from(ranges.bytes.read([0, 500])), bytes.subarray(0, 500));
    // Ranges are not joined over bytes that are there, though the gap is wide.
    const wide = new Ranges(new HttpFile(server.url), 1000);
    server.forget();
    await wide.need([[110, 115]], signal);
    await wide.need(
      [
        [100, 110],
        [130, 140],
        [200, 210],
      ],
      signal,
    );
    const asked = [...server.asked].sort((a, b) => a[0] - b[0]);
    assert.deepEqual(asked, [[100, 109], [110, 114], [130, 209]]); // prettier-ignore
    assert.equal(file.size, bytes.length);
    assert.equal(file.received, 500);
  });

  test('skip: rows say how many neurons were left out, and nothing more is fetched', async () => {
    reset();
    const embedder = await load({ cold: { mode: 'skip', ...SIZES }, workers: 2 });
    const before = server.asked.length;
    const all = await Promise.all([embedder.embed(TEXTS), embedder.embed(TEXTS[0])]);
    assert.equal(server.asked.length, before);
    const [many, one] = all.map((rows) => /** @type {any} */ (rows).skipped);
    assert.ok(one > 0 && many > one);
    assert.equal(coldOf(embedder).skipped, many + one);
    assert.deepEqual(all[1], await embedder.embed(TEXTS[0]));
    assert.notDeepEqual(all[0].row(0), expected.row(0));
  });

  test('files: the same bits by path and URL, and a change is noticed', async () => {
    const copy = join(folder, 'copy.gguf');
    writeFileSync(copy, bytes);
    for (const source of [copy, pathToFileURL(copy)]) {
      const embedder = await load({}, source);
      assert.deepEqual(await embedder.embed(TEXTS), expected);
    }
    const embedder = await load({}, copy);
    truncateSync(copy, bytes.length - 1);
    await assert.rejects(
      embedder.embed(TEXTS),
      failure({ code: 'io', message: /the file has changed since it was opened/ }),
    );
    assert.equal((await embedder.tokenize('a')).length, 3);
    await assert.rejects(load({}, join(folder, 'none')), { code: 'not_found' });
  });

  test('a model without cold neurons is loaded as a whole', async () => {
    const embedder = await load({}, smallModel());
    assert.equal(coldOf(embedder).mode, 'all');
    assert.match(String(/** @type {any} */ (embedder.info().reasons).cold), /no cold neurons/);
    assert.equal((await embedder.embed('a')).count, 1);
  });

  test('where tokens alone are cold, any predictor has the bits of the whole model', async () => {
    const tokens = smallColdTokensModel();
    reset();
    server.bytes = readFileSync(tokens);
    server.etag = '"tokens"';
    const first = coldOf(await load()).hotBytes;
    for (const predictor of /** @type {const} */ (['auto', 'dense', 'exact'])) {
      const whole = await Embedder.load(tokens, { backend: 'wasm', workers: 1, predictor });
      const wanted = await whole.embed(TEXTS);
      await whole.close();
      server.forget();
      const embedder = await load({ cold: { mode: 'wait', ...SIZES, first }, predictor });
      assert.equal(server.asked.length, 1);
      assert.deepEqual(await embedder.embed(TEXTS), wanted);
      assert.ok(server.asked.length > 1);
      assertOnce();
      const { mode, warmTokens, neurons, hotBytes, fileBytes } = coldOf(embedder);
      assert.ok(mode === 'wait' && warmTokens > 0 && neurons === 0 && hotBytes < fileBytes);
    }
    await assert.rejects(load({ predictor: 'lowrank' }), { code: 'not_found' });
    const whole = await Embedder.load(tokens, { backend: 'wasm', workers: 1 });
    const wanted = await whole.embed(TEXTS);
    await whole.close();
    /** @type {any} */
    const refused = await load({ memory: 1 }).catch((error) => error);
    const least = Number(/the least is (\d+) bytes/.exec(refused.message)?.[1]);
    assert.deepEqual([refused.code, refused.field], ['argument', 'memory']);
    const small = await load({ memory: least });
    assert.deepEqual(await small.embed(TEXTS), wanted);
    assert.ok(small.info().residentBytes <= least);
  });

  test('setSparse opens the model again, and its neurons come from what was fetched', async () => {
    reset();
    const embedder = await load();
    await embedder.embed(TEXTS);
    await embedder.setSparse({ predictor: 'lowrank' });
    assert.deepEqual(await embedder.embed(TEXTS), expected);
    assertOnce();
    await assert.rejects(embedder.setSparse({ predictor: 'dense' }), { code: 'unsupported' });
    assert.deepEqual(await embedder.embed(TEXTS), expected);
  });

  test('without wisp-engine/cold a page is told to import it', async () => {
    await assert.rejects(
      loadModel(/** @type {any} */ ({}), /** @type {any} */ ({}), 'm.gguf', { cold: 'wait' }),
      failure({ code: 'argument', message: /^cold: import 'wisp-engine\/cold'$/ }),
    );
  });

  test('wrong options', async () => {
    const { signal } = new AbortController();
    for (const options of [
      { cold: 'sometimes' },
      { cold: { mode: 'wait', gap: -1 } },
      { cold: { mode: 'wait', complete: 'yes' } },
      { cold: { mode: 'wait', size: 1 } },
      { cold: { mode: 'wait', first: Symbol('f') } },
      { cold: { mode: 'wait', onChange: Object.create(null) } },
      { cold: { mode: 'wait', sha256: ['0'.repeat(64)] } },
      { cold: 'wait', memory: Symbol('m') },
      { backend: 'native' },
      { integrity: { model: `sha256-${'A'.repeat(43)}=` } },
    ]) {
      await assert.rejects(load({ signal, ...options }), { code: 'argument' }, JSON.stringify(options)); // prettier-ignore
    }
    await assert.rejects(
      load({ cold: {} }),
      failure({ code: 'argument', message: /^cold: mode is missing: 'wait' or 'skip'$/ }),
    );
    for (const source of [new Uint8Array(bytes), new Blob([bytes]), 'hf:o/m']) {
      await assert.rejects(load({}, /** @type {any} */ (source)), { code: 'argument', field: 'cold' }); // prettier-ignore
    }
    const loading = Generator.load(path, /** @type {any} */ ({ cold: 'wait' }));
    await assert.rejects(loading, { code: 'argument', field: 'cold' });
  });
});

describe('a server that sends for ranges', { concurrency: 8 }, () => {
  for (const [name, { error }] of Object.entries(rangeFaults(undefined, bytes).ranges)) {
    test(`${name}: ${error ? 'a typed error, and the pool lives on' : 'right rows'}`, async () => {
      const own = await serveRanges(bytes);
      own.etag = '"one"';
      const embedder = await open({ workers: 1 }, own.url);
      try {
        own.forget();
        own.fault = rangeFaults(own, bytes).ranges[name].fault;
        if (error) await assert.rejects(embedder.embed(TEXTS), failure(error));
        else assert.deepEqual(await embedder.embed(TEXTS), expected);
        own.fault = undefined;
        assert.deepEqual(await embedder.embed(TEXTS), expected);
        assert.equal(/** @type {any} */ (embedder.stats()).lostWorkers, 0);
      } finally {
        await embedder.destroy();
        await own.close();
      }
    });
  }
});

describe('a server that sends when a model is opened', () => {
  const { opening } = rangeFaults(undefined, bytes);
  for (const [name, { fault, error, mode = 'wait' }] of Object.entries(opening)) {
    test(`${name}: ${error ? 'a typed error' : 'right rows'}`, async () => {
      reset();
      server.fault = fault;
      if (error) return void (await assert.rejects(load(), failure(error)));
      const embedder = await load({ predictor: 'lowrank' });
      assert.equal(coldOf(embedder).mode, mode);
      assert.deepEqual(await embedder.embed(TEXTS), expected);
    });
  }
});

test('faulty calls leave no memory behind', async () => {
  reset();
  const embedder = await load({ workers: 0 });
  const sizes = [];
  for (let round = 0; round < 200; round++) {
    const stop = new AbortController();
    server.fault = (response) => (round % 2 ? stop.abort() : void response.writeHead(404).end());
    const call = embedder.embed(TEXTS, { signal: stop.signal });
    await assert.rejects(call, { code: round % 2 ? 'cancelled' : 'not_found' });
    sizes.push(embedder.stats().memoryBytes);
  }
  assert.equal(sizes.at(-1), sizes[9]);
  server.fault = undefined;
  assert.deepEqual(await embedder.embed(TEXTS), expected);
});

test('a redirect from https to http is refused', async () => {
  reset();
  const certificate = makeCertificate();
  const trusted = join(folder, 'certificate.pem');
  writeFileSync(trusted, certificate.cert);
  const front = createSecureServer(certificate, (_, response) => {
    response.writeHead(302, { Location: server.url }).end();
  });
  await new Promise((done) => front.listen(0, '127.0.0.1', () => done(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (front.address());
  const script = `
    import { Embedder } from ${JSON.stringify(new URL('../../js/node.js', import.meta.url))};
    await Embedder.load('https://127.0.0.1:${port}/model.gguf', { workers: 0, cold: 'wait' })
      .catch(({ name, code, message }) => console.log(JSON.stringify({ name, code, message })));`;
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: trusted },
  });
  const { name, code, message } = JSON.parse((await run).stdout);
  assert.deepEqual([name, code], ['WispError', 'io'], message);
  assert.match(message, /^https:.* leads to http:.*, which is not encrypted$/);
  front.close();
});

describe('a server that stops answering', () => {
  /** Resolves when a request waits for its answer. */
  const stall = () =>
    new Promise((resolve) => {
      server.fault = (response) => {
        response
          .writeHead(206, { ETag: server.etag, 'Content-Range': 'bytes 0-1/2' })
          .flushHeaders();
        resolve(undefined);
      };
    });
  const isQuiet = async () => {
    while (server.open > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  };

  for (const workers of [0, 2]) {
    test(`aborting a call ends its requests, with ${workers} workers; later calls are right`, async () => {
      reset();
      const embedder = await load({ workers });
      const stop = new AbortController();
      server.fault = () => stop.abort();
      await assert.rejects(embedder.embed(TEXTS, { signal: stop.signal }), { code: 'cancelled' });
      await isQuiet();
      server.fault = undefined;
      assert.deepEqual(await embedder.embed(TEXTS), expected);
      assert.equal(embedder.stats().lostWorkers, 0);
    });
  }

  test('aborting one of two calls leaves the requests that the other waits for', async () => {
    reset();
    const embedder = await load({ workers: 2 });
    const stop = new AbortController();
    /** @type {(() => void)[]} */
    const held = [];
    const asked = new Promise((resolve) => {
      server.fault = (_, next) => void (held.push(next), resolve(undefined));
    });
    const texts = TEXTS.slice(0, 20);
    const one = embedder.embed(texts, { signal: stop.signal });
    const two = embedder.embed(texts);
    await asked;
    stop.abort();
    await assert.rejects(one, { code: 'cancelled' });
    server.fault = undefined;
    held.forEach((next) => next());
    assert.deepEqual((await two).row(0), expected.row(0));
  });

  test('destroy rejects what waits', async () => {
    reset();
    const embedder = await load({ workers: 2 });
    const stalled = stall();
    const call = embedder.embed(TEXTS);
    const rejected = assert.rejects(call, { code: 'closed' });
    await stalled;
    await embedder.destroy();
    await rejected;
    await isQuiet();
  });

  test('aborting load ends its request', async () => {
    reset();
    const stop = new AbortController();
    server.fault = () => stop.abort();
    await assert.rejects(load({ signal: stop.signal }), { code: 'cancelled' });
    await isQuiet();
  });

  test('a request without a byte for some time is made again', async () => {
    reset();
    const file = new HttpFile(server.url, 50);
    const { signal } = new AbortController();
    server.fault = rangeFaults(undefined, bytes).first(() => {}, 1);
    const ranges = new Ranges(file, 0);
    await ranges.need([[0, 1000]], signal);
    assert.deepEqual(Buffer.from(ranges.bytes.read([0, 1000])), bytes.subarray(0, 1000));
    server.fault = () => {};
    await assert.rejects(
      ranges.need([[1000, 2000]], signal),
      failure({ code: 'io', message: /: 0 of 1000 bytes have come, 0 in the last 50 ms/ }),
    );
  });

  test('a request that brings fewer than 100 bytes a second is made again', async () => {
    reset();
    const file = new HttpFile(server.url, 300);
    const { signal } = new AbortController();
    const { drips, first } = rangeFaults(server, bytes);
    const drip = drips(100);
    server.fault = first(drip, 1);
    const ranges = new Ranges(file, 0);
    await ranges.need([[0, 1000]], signal);
    assert.deepEqual(Buffer.from(ranges.bytes.read([0, 1000])), bytes.subarray(0, 1000));
    server.forget();
    server.fault = drip;
    await assert.rejects(
      ranges.need([[1000, 2000]], signal),
      failure({
        code: 'io',
        message: /http:.*: \d of \d+ bytes have come, \d in the last 300 ms/,
      }),
    );
    assert.equal(server.asked.length, 5);
  });

  test('a pause that the server asks for does not count as that time', async () => {
    reset();
    const file = new HttpFile(server.url, 1000);
    const refused = { ETag: server.etag, 'Retry-After': '1.1' };
    server.fault = rangeFaults(undefined, bytes).first(
      (response) => void response.writeHead(503, refused).end(),
      1,
    );
    const ranges = new Ranges(file, 0);
    await ranges.need([[0, 1000]], new AbortController().signal);
    assert.deepEqual(Buffer.from(ranges.bytes.read([0, 1000])), bytes.subarray(0, 1000));
    assert.equal(server.asked.length, 2);
    assert.equal(file.requests, 1, 'the request was made again from the beginning');
  });
});
