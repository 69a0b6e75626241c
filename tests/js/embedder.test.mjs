// SPDX-License-Identifier: Apache-2.0
// The package in Node as a user calls it: sources, results, progress, close and destroy.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createHash } from 'node:crypto';
import { mkdtempSync, openAsBlob, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';
import { Embedder, Rows, WispError } from '../../js/node.js';
import { compileBuild } from '../../js/embedding-node.js';
import { hasher } from '../../js/base/sha256.js';
import { estimateTokens } from '../../js/calls/job.js';
import {
  DEFAULT_MODEL_PATH,
  ROOT,
  goldenTexts,
  noShared,
  readShared,
  smallModel,
} from './support.mjs';

const ENTRY = new URL('../../js/node.js', import.meta.url).href;
const SMALL = smallModel();

/** @param {Float32Array} rows */
const plain = (rows) => new Float32Array(rows.buffer);

describe('golden texts', { skip: noShared }, () => {
  const { texts, places } = goldenTexts();
  /** @type {Float32Array} */
  let expected;
  before(async () => {
    const bytes = new Uint8Array(readFileSync(DEFAULT_MODEL_PATH));
    const engine = await Engine.open(await compileBuild(pickBuild()), bytes);
    expected = engine.embed(texts);
    engine.close();
  });

  for (const workers of [1, 4]) {
    test(`${workers} workers: the bits of the module alone, in any order`, async () => {
      const embedder = await Embedder.load(undefined, { workers });
      // A permutation: 199 is a prime that divides no number of texts.
      const order = texts.map((_, i) => (workers === 1 ? i : (i * 199) % texts.length));
      const rows = await embedder.embed(order.map((i) => texts[i]));
      await embedder.close();
      assert.equal(rows.count, texts.length);
      order.forEach((place, i) =>
        assert.deepEqual(
          rows.row(i),
          expected.subarray(place * rows.dimensions, (place + 1) * rows.dimensions),
          `text ${place}`,
        ),
      );
    });
  }

  test('estimates of token counts are near enough to deal work by', () => {
    const ids = JSON.parse(String(readShared('golden/all-MiniLM-L6-v2/ids.json')));
    let estimated = 0;
    let counted = 0;
    texts.forEach((text, i) => {
      if (places[i] >= 450) return;
      const estimate = estimateTokens(text, 256);
      assert.ok(estimate <= 256 && estimate >= 2);
      const { length } = ids[places[i]];
      assert.ok(Math.max(estimate / length, length / estimate) < 2, text);
      estimated += estimate;
      counted += length;
    });
    assert.ok(Math.abs(estimated / counted - 1) < 0.2, `${estimated} for ${counted}`);
  });
});

describe('sources', () => {
  const bytes = new Uint8Array(readFileSync(SMALL));
  /** @type {import('node:http').Server} */
  let server;
  let address = '';
  before(async () => {
    server = createServer((request, response) => {
      if (request.url === '/model') {
        response.setHeader('Content-Length', bytes.length);
        response.end(bytes);
      } else if (request.url === '/chunked') {
        response.write(bytes.subarray(0, 1000));
        response.end(bytes.subarray(1000));
      } else if (request.url === '/short') {
        response.setHeader('Content-Length', bytes.length);
        response.write(bytes.subarray(0, 1000));
        setTimeout(() => response.destroy(), 20);
      } else if (request.url === '/page') {
        response.end('<!doctype html><p>Please log in');
      } else if (request.url === '/stalls') {
        response.write('G');
      } else {
        response.statusCode = request.url === '/down' ? 503 : 404;
        response.end();
      }
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
    address = `http://127.0.0.1:${port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  test('a path, URLs, a Blob, a File and bytes give the same', async () => {
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
    shared.set(bytes);
    const padded = new Uint8Array(bytes.length + 10);
    padded.set(bytes, 5);
    // A vm context, and a page's frame, has classes of its own.
    const foreign = runInNewContext('Uint8Array.from(bytes)', { bytes });
    const room = { maxByteLength: bytes.length + 9 };
    const resizable = new Uint8Array(new /** @type {any} */ (ArrayBuffer)(bytes.length, room));
    resizable.set(bytes);
    const sources = [
      foreign,
      foreign.buffer,
      resizable,
      SMALL,
      pathToFileURL(SMALL),
      pathToFileURL(SMALL).href,
      `${address}/model`,
      new URL(`${address}/chunked`),
      await openAsBlob(SMALL),
      bytes,
      bytes.buffer,
      Buffer.from(bytes),
      padded.subarray(5, 5 + bytes.length),
      new DataView(bytes.buffer),
      shared,
      shared.buffer,
    ];
    /** @type {Float32Array | undefined} */
    let expected;
    for (const source of sources) {
      const embedder = await Embedder.load(source, { workers: 1 });
      const rows = await embedder.embed(['find the water', '']);
      assert.equal(embedder.info().modelBytes, bytes.length);
      await embedder.close();
      expected ??= plain(rows);
      assert.deepEqual(plain(rows), expected);
    }
  });

  test('what cannot be read is named', async () => {
    for (const [source, code, message] of /** @type {[any, string, RegExp][]} */ ([
      ['/no/such/model.gguf', 'not_found', /no\/such\/model\.gguf/],
      [ROOT, 'io', /is a folder\. import 'wisp-engine\/convert'.*npx wisp-engine convert/],
      [`${address}/gone`, 'not_found', /gone: HTTP 404/],
      [`${address}/down`, 'io', /down: HTTP 503/],
      [`${address}/short`, 'io', /short/],
      [`${address}/page`, 'format', /page is an HTML page/],
      ['http://127.0.0.1:1/', 'io', /127\.0\.0\.1:1/],
    ])) {
      await assert.rejects(Embedder.load(source), (/** @type {WispError} */ error) => {
        assert.ok(error instanceof WispError);
        assert.equal(error.code, code, String(source));
        assert.match(error.message, message);
        return true;
      });
    }
  });

  test("a model's bytes are read once while something uses them or may", async () => {
    let state = 0;
    const served = createServer((request, response) => {
      response.setHeader('Content-Length', bytes.length);
      if (request.url !== '/plain') response.setHeader('ETag', `"${request.url}"`);
      if (request.url === '/changes') response.setHeader('ETag', `"${state}"`);
      response.end(bytes);
    });
    served.listen(0, '127.0.0.1');
    await once(served, 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (served.address());
    const copied = join(mkdtempSync(join(tmpdir(), 'wisp-model-')), 'model.gguf');
    writeFileSync(copied, bytes);
    /** Loads, and returns the memory that the worker is given. */
    const load = async (/** @type {string} */ source) => {
      const model = /** @type {SharedArrayBuffer[]} */ ([]);
      const { postMessage } = Worker.prototype;
      Worker.prototype.postMessage = function (message, ...rest) {
        if (message.type === 'open') model.push(message.model.buffer);
        return postMessage.call(this, message, ...rest);
      };
      try {
        return { embedder: await Embedder.load(source, { workers: 1 }), buffer: model[0] };
      } finally {
        Worker.prototype.postMessage = postMessage;
      }
    };
    for (const source of [copied, `http://127.0.0.1:${port}/model`]) {
      const first = await load(source);
      const second = await load(source);
      assert.equal(second.buffer, first.buffer, 'while another uses it');
      await Promise.all([first.embedder.close(), second.embedder.destroy()]);
      const third = await load(source);
      assert.equal(third.buffer, first.buffer, 'after all are closed');
      await third.embedder.close();
      Embedder.releaseModels();
      const fourth = await load(source);
      assert.notEqual(fourth.buffer, first.buffer, 'after its release');
      await fourth.embedder.close();
    }
    const before = await load(copied);
    utimesSync(copied, 1, 1);
    const after = await load(copied);
    assert.notEqual(after.buffer, before.buffer, 'the file has changed');
    await Promise.all([before.embedder.close(), after.embedder.close()]);
    for (const path of ['plain', 'changes']) {
      const one = await load(`http://127.0.0.1:${port}/${path}`);
      state++;
      const two = await load(`http://127.0.0.1:${port}/${path}`);
      assert.notEqual(two.buffer, one.buffer, path);
      await Promise.all([one.embedder.close(), two.embedder.close()]);
    }
    served.closeAllConnections();
    served.close();
    rmSync(join(copied, '..'), { recursive: true });
  });

  test('hashes are those of SHA-256, however the bytes come', () => {
    for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000]) {
      const data = Buffer.alloc(length, 'wisp');
      const hash = hasher();
      for (let at = 0; at < length; at += 7) hash.add(data.subarray(at, at + 7));
      const expected = createHash('sha256').update(data).digest('base64');
      assert.equal(hash.end(), `sha256-${expected}`, `${length} bytes`);
    }
  });

  test('a download that stalls can be aborted', async () => {
    const signal = AbortSignal.timeout(100);
    await assert.rejects(Embedder.load(`${address}/stalls`, { signal }), { code: 'cancelled' });
  });
});

describe('the default model', () => {
  /** @type {Embedder} */
  let embedder;
  /** @type {import('../../types/index.js').LoadProgress[]} */
  const progress = [];
  before(async () => {
    const onProgress = (/** @type {import('../../types/index.js').LoadProgress} */ p) =>
      void progress.push(p);
    embedder = await Embedder.load(undefined, { workers: 2, onProgress });
  });
  after(() => embedder.close());

  test('loads with progress, and says what it is and why', () => {
    const total = readFileSync(DEFAULT_MODEL_PATH).length;
    const model = progress.filter(({ phase }) => phase === 'model');
    assert.deepEqual(model.at(-1), { phase: 'model', loaded: total, total });
    model.reduce((last, { loaded }) => (assert.ok(loaded > last), loaded), 0);
    assert.deepEqual(progress.at(-1), { phase: 'workers', loaded: 2, total: 2 });
    const info = embedder.info();
    assert.equal(info.name, 'wisp-minilm-l6-relu');
    assert.equal(info.workers, 2);
    assert.equal(info.sharedMemory, true);
    assert.match(info.build, /wasm (simd128|relaxed)/);
    assert.match(info.reasons.build, /relaxed SIMD/);
    assert.equal(info.reasons.workers, 'asked for');
    assert.match(info.reasons.memory, /shares memory/);
  });

  test('rows are one Float32Array', async () => {
    const rows = await embedder.embed(['one', 'two', 'three']);
    assert.ok(rows instanceof Rows && rows instanceof Float32Array);
    assert.deepEqual([rows.length, rows.count, rows.dimensions], [3 * 384, 3, 384]);
    assert.equal(Object.getPrototypeOf(rows.slice(0, 2)), Float32Array.prototype);
    const second = rows.row(1);
    assert.equal(second.buffer, rows.buffer);
    assert.deepEqual(second, plain(await embedder.embed('two')));
    assert.deepEqual([...rows], [rows.row(0), second, rows.row(2)]);
    assert.equal([...rows.values()].length, rows.length);
    for (const i of [-1, 3, 0.5, NaN]) assert.throws(() => rows.row(i), RangeError);
    assert.equal((await embedder.embed([])).count, 0);
  });

  test('dimensions, prompts, progress and tokens', async () => {
    const short = await embedder.embed(['x', 'y'], { dimensions: 10 });
    assert.deepEqual([short.length, short.dimensions], [20, 10]);
    assert.ok(Math.abs(Math.hypot(...short.row(1)) - 1) < 1e-6);
    await assert.rejects(embedder.embed(['x'], { dimensions: 385 }), { field: 'dimensions' });
    const prompted = await embedder.embed(['x'], { prompt: 'query: ' });
    assert.deepEqual(plain(prompted), plain(await embedder.embed(['query: x'])));
    const seen = /** @type {number[]} */ ([]);
    const texts = Array.from({ length: 100 }, (_, i) => `text ${i} ${'word '.repeat(i % 9)}`);
    await embedder.embed(texts, { onProgress: ({ done }) => void seen.push(done) });
    assert.ok(seen.length > 1);
    assert.equal(seen.at(-1), 100);
    assert.deepEqual([...(await embedder.tokenize('Hello, world!'))], [101, 7592, 1010, 2088, 999, 102]); // prettier-ignore
  });

  test('on the calling thread: the same bits', async () => {
    const local = await Embedder.load(undefined, { workers: 0 });
    assert.equal(local.info().workers, 0);
    assert.equal(local.info().sharedMemory, false);
    const texts = ['one', 'and two', '', 'three '.repeat(20)];
    const rows = await local.embed(texts);
    assert.deepEqual(plain(rows), plain(await embedder.embed(texts)));
    await local.close();
    await assert.rejects(local.embed(['x']), { code: 'closed' });
  });

  test('a choice of module: an address or a compiled one', async () => {
    const url = new URL('../../js/wisp-simd128.wasm', import.meta.url);
    for (const wasm of [url, await compileBuild('simd128')]) {
      const other = await Embedder.load(SMALL, { workers: 1, wasm });
      assert.match(other.info().build, /wasm simd128/);
      assert.equal(other.info().reasons.build, 'given');
      await other.close();
    }
    const wasm = new URL('../../package.json', import.meta.url);
    await assert.rejects(Embedder.load(SMALL, { wasm }), { code: 'unsupported' });
  });

  test('any number of calls share a signal', async () => {
    const warnings = /** @type {Error[]} */ ([]);
    const warn = (/** @type {Error} */ warning) => void warnings.push(warning);
    process.on('warning', warn);
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 20 }, (_, i) => embedder.embed(`${i}`, { signal })));
    await new Promise((done) => setImmediate(done));
    process.off('warning', warn);
    assert.deepEqual(warnings, []);
    const abort = new AbortController();
    const calls = Array.from({ length: 20 }, () => embedder.embed('x', { signal: abort.signal }));
    abort.abort();
    for (const { reason } of /** @type {any[]} */ (await Promise.allSettled(calls))) {
      assert.deepEqual([reason.name, reason.code], ['AbortError', 'cancelled']);
    }
  });

  test('await using closes', async () => {
    const other = /** @type {any} */ (await Embedder.load(SMALL, { workers: 1 }));
    await other[Symbol.asyncDispose]();
    await assert.rejects(other.embed('x'), { code: 'closed' });
  });

  test('a folder with copies of the files', async () => {
    for (const files of [ROOT, pathToFileURL(ROOT)]) {
      const other = await Embedder.load(undefined, { files, workers: 1 });
      assert.equal((await other.embed('x')).count, 1);
      await other.close();
    }
    await assert.rejects(Embedder.load(undefined, { files: '/no/such' }), { code: 'not_found' });
  });

  test('statistics', async () => {
    const before = embedder.stats();
    await embedder.embed(['one', 'two', 'word '.repeat(400)]);
    const after = embedder.stats();
    assert.equal(after.texts - before.texts, 3);
    assert.equal(after.truncatedTexts - before.truncatedTexts, 1);
    assert.equal(after.tokens - before.tokens, 3 + 3 + 256);
    assert.ok(after.memoryBytes > 2 * 19e6);
    assert.ok(after.stageSeconds.ffn_sparse > (before.stageSeconds.ffn_sparse ?? 0));
    assert.deepEqual([after.workers, after.busyWorkers, after.waitingTexts], [2, 0, 0]);
  });
});

describe('the end of the process', () => {
  /** @param {string} script @param {...string} flags of Node */
  async function run(script, ...flags) {
    const program = `import { Embedder } from '${ENTRY}';${script}`;
    const args = [...flags, '--input-type=module', '--eval', program];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    child.stdout.on('data', (chunk) => (out += chunk));
    child.stderr.on('data', (chunk) => (out += chunk));
    const [code] = await once(child, 'close');
    return { code, out };
  }

  test('errors have their codes where intrinsics are frozen', async () => {
    const script = `
      const e = await Embedder.load(${JSON.stringify(SMALL)}, { workers: 1 });
      await e.embed('a', { prompt: 'none' }).catch((error) => console.log(error.name, error.code));
      await e.close();`;
    const flags = ['--frozen-intrinsics', '--no-warnings'];
    assert.deepEqual(await run(script, ...flags), { code: 0, out: 'WispError not_found\n' });
  });

  test('fake timers do not stop a call on the calling thread', async () => {
    const script = `
      for (const name of ['setTimeout', 'setInterval', 'setImmediate']) globalThis[name] = () => {};
      performance.now = () => 0;
      const e = await Embedder.load(${JSON.stringify(SMALL)}, { workers: 0, backend: 'wasm' });
      console.log((await e.embed(['a', 'b'])).count);
      await e.close();`;
    assert.deepEqual(await run(script), { code: 0, out: '2\n' });
  });

  test('without threads, or without WebAssembly: the calling thread, or an error', async () => {
    const script = `
      try {
        const e = await Embedder.load(${JSON.stringify(SMALL)}, { backend: 'wasm' });
        console.log((await e.embed('a')).length > 0, e.info().workers, e.info().reasons.workers);
        await e.close();
      } catch (error) {
        console.log(error.name, error.code, error.message);
      }`;
    const flag = ['--permission', '--experimental-permission'].find((name) =>
      process.allowedNodeEnvironmentFlags.has(name),
    );
    const flags = [String(flag), '--allow-fs-read=*', '--no-warnings'];
    const out = 'true 0 the process may not start threads: node --allow-worker\n';
    assert.deepEqual(await run(script, ...flags), { code: 0, out });
    const { out: said } = await run(script, '--jitless', '--no-warnings');
    assert.match(said, /WispError unsupported there is no WebAssembly here/);
  });

  test('comes by itself, closed or not, and not before calls are done', async () => {
    const load = `const e = await Embedder.load(${JSON.stringify(SMALL)}, { workers: 2 });`;
    for (const script of [
      `${load} console.log((await e.embed(['a', 'b'])).count);`,
      `${load} console.log((await e.embed(['a', 'b'])).count); await e.close();`,
      `${load} e.embed(['a', 'b']).then((rows) => console.log(rows.count));`,
      `${load} await e.destroy(); console.log(2);`,
      `${load} console.log(2);`,
    ]) {
      assert.deepEqual(await run(script), { code: 0, out: '2\n' }, script);
    }
  });

  test('importing does nothing', async () => {
    const { code, out } = await run(
      `console.log(JSON.stringify([process.getActiveResourcesInfo().filter((name) => /Worker|FS|Port/.test(name)), Object.keys(globalThis).filter((k) => /wisp/i.test(k))]));`,
    );
    assert.deepEqual({ code, out }, { code: 0, out: '[[],[]]\n' });
  });
});

// The folder's config_sentence_transformers.json says truncate_dim 8, of 16 values. Its pooling leaves prompts out.
test("a model may cut its embeddings: sentence-transformers' rows, with prompts and without", async () => {
  const golden = JSON.parse(
    readFileSync(`${ROOT}tests/data/models/overridden/golden.json`, 'utf8'),
  );
  const embedder = await Embedder.load(smallModel('overridden'), { workers: 1, compute: 'f32' });
  assert.equal(embedder.dimensions, 8);
  assert.equal(embedder.info().hiddenSize, 16);
  for (const { prompt, texts, rows } of golden) {
    const found = await embedder.embed(texts, {
      prompt: prompt === 'query' ? 'find the water: ' : '',
    });
    assert.equal(found.dimensions, 8);
    rows
      .flat()
      .forEach((/** @type {number} */ value, /** @type {number} */ i) =>
        assert.ok(Math.abs(found[i] - value) < 1e-5, `value ${i}: ${found[i]}, not ${value}`),
      );
  }
  await assert.rejects(embedder.embed(['water'], { dimensions: 9 }), { field: 'dimensions' });
  await embedder.close();
});
