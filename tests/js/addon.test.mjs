// SPDX-License-Identifier: Apache-2.0
// The addon for Node: the bits of the program, the behaviour of workers, and memory that is freed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { NativeEngine } from '../../js/native/native-engine.js';
import { Embedder, WispError } from '../../js/node.js';
import { shortTexts } from './pool/texts.mjs';
import {
  ADDON,
  DEFAULT_MODEL_PATH,
  ROOT,
  extent,
  floatsOf,
  noAddon,
  smallCalibratedModel,
  smallModel,
  wisp,
} from './support.mjs';
import { collectGarbage, run, threads, until } from './this-process.mjs';

const ENTRY = new URL('../../js/node.js', import.meta.url).href;
const SMALL = noAddon ? '' : smallModel();

/** @param {import('../../js/files/source.js').ModelSource} [source] @param {object} [options] */
const load = (source, options) => Embedder.load(source, { addon: ADDON, ...options });

/** Lines, because the program embeds lines. */
const TEXTS = [...shortTexts(40, 0), 'long '.repeat(300), 'naïve café 東京 🙂', 'a'];

/** @param {string[]} args */
const programRows = (args) =>
  floatsOf(wisp(['embed', '--format', 'f32', ...args], TEXTS.join('\n')).bytes);

/** @param {Float32Array} rows */
const plain = (rows) => new Float32Array(rows.buffer);

describe('the addon', { skip: noAddon }, () => {
  describe('computes the bits of the program', () => {
    const { kernels } = noAddon ? { kernels: [] } : createRequire(import.meta.url)(ADDON);
    for (const compute of ['int8', 'f32']) {
      for (const set of /** @type {string[]} */ (kernels)) {
        test(`${compute}, ${set}`, async () => {
          // The scalar set takes a minute for the default model.
          const model = set === 'scalar' ? SMALL : DEFAULT_MODEL_PATH;
          const expected = programRows(['-m', model, '--compute', compute, '--cpu', set]);
          for (const workers of [0, 1, 3]) {
            const embedder = await load(model, { workers, compute, kernels: set });
            const { backend, kernels: chosen, compute: mode } = embedder.info();
            assert.deepEqual([backend, chosen, mode], ['native', set, compute]);
            assert.deepEqual(plain(await embedder.embed(TEXTS)), expected, `${workers} workers`);
            await embedder.close();
          }
        });
      }
    }

    test('with dimensions and prompts', async () => {
      const embedder = await load(smallModel('prompted'), { workers: 2 });
      const args = ['-m', smallModel('prompted'), '--dimensions', '5', '--prompt', 'query'];
      const rows = await embedder.embed(TEXTS, { dimensions: 5, prompt: 'query' });
      assert.deepEqual(plain(rows), programRows(args));
      await embedder.close();
    });

    test('with sparse layers, also after changes of them', async () => {
      const model = smallCalibratedModel();
      const embedder = await load(model, { workers: 2, predictor: 'dense' });
      for (const options of [
        { sparsity: 0.8 },
        { predictor: 'sentence', sparsity: 0.4 },
        { predictor: 'exact' },
        { predictor: 'lowrank', sparsity: 0.8 },
      ]) {
        const { predictor = 'lowrank', sparsity } = /** @type {any} */ (options);
        const change = embedder.setSparse(/** @type {any} */ (options));
        const rows = await embedder.embed(TEXTS);
        await change;
        const args = ['-m', model, '--predictor', predictor];
        if (sparsity !== undefined) args.push('--sparsity', `${sparsity}`);
        assert.deepEqual(plain(rows), programRows(args), JSON.stringify(options));
      }
      await assert.rejects(embedder.setSparse({ sparsity: 1 }), { field: 'sparsity' });
      await embedder.close();
    });
  });

  test('answers as WebAssembly does', async () => {
    const answers = [];
    for (const backend of ['native', 'wasm']) {
      // Only native code has bf16, and on some processors takes it by default.
      const options = { backend, compute: 'f32', ...(backend === 'native' && { addon: ADDON }) };
      const embedder = await Embedder.load(SMALL, { workers: 2, .../** @type {any} */ (options) });
      const { kernels, build, features, residentBytes, reasons, ...info } = embedder.info();
      assert.ok(kernels && build && residentBytes && reasons && features !== undefined);
      assert.equal(embedder.stats().backend, backend);
      assert.ok(embedder.stats().memoryBytes > 0);
      const errors = [];
      for (const [texts, asked] of /** @type {any[]} */ ([
        [['x'], { prompt: 'absent' }],
        [['x'], { dimensions: 1e6 }],
        [['x'], { dimensions: 0 }],
        [['x', 3], {}],
        [['x'], { other: 1 }],
      ])) {
        const error = await embedder.embed(texts, asked).catch((reason) => reason);
        assert.ok(error instanceof WispError);
        errors.push([error.code, error.field, error.message]);
      }
      const ids = [];
      for (const text of [
        '',
        'lone \ud800 surrogate',
        'nul \0 byte',
        'naïve 東京',
        'x '.repeat(999),
      ])
        ids.push([...(await embedder.tokenize(text))]);
      const { count } = await embedder.embed([]);
      await embedder.close();
      const closed = await embedder.embed(['x']).catch((reason) => reason.code);
      const faults = [];
      for (const [source, given] of /** @type {any[]} */ ([
        [readFileSync(SMALL).subarray(0, 1000), {}],
        [new Uint8Array(100), {}],
        [SMALL, { compute: 'f16' }],
        [SMALL, { predictor: 'lowrank' }],
        [SMALL, { sparsity: 2 }],
        [SMALL, { workers: -1 }],
        ['/nowhere', {}],
      ])) {
        const error = await Embedder.load(source, { ...options, ...given }).catch(
          (reason) => reason,
        );
        assert.ok(error instanceof WispError, `${error}`);
        faults.push([error.code, error.field, error.message.replace('int8, bf16', 'int8')]);
      }
      answers.push({ info: { ...info, backend: '' }, errors, ids, count, closed, faults });
    }
    assert.deepEqual(answers[0], answers[1]);
  });

  test('says why it was chosen or not, and that what is asked for is impossible', async () => {
    const reason = async (/** @type {object} */ options) => {
      const embedder = await Embedder.load(SMALL, { workers: 1, ...options });
      const { backend, reasons } = embedder.info();
      await embedder.close();
      return `${backend}: ${reasons.backend}`;
    };
    assert.match(await reason({ addon: ADDON }), /^native: .*wisp\.node \d+\.\d+\.\d+$/);
    assert.match(await reason({}), /^wasm: @wisp-engine\/linux-\w+-gnu is not installed; .*-musl/);
    assert.equal(await reason({ backend: 'wasm', addon: ADDON }), 'wasm: asked for');
    const inModule = await Embedder.load(SMALL, { workers: 0, backend: 'wasm' });
    const { kernels } = inModule.info();
    await inModule.close();
    assert.match(
      await reason({ addon: ADDON, kernels }),
      /^wasm: native code has no kernel set '\w+/,
    );
    const impossible = (
      /** @type {any} */ options,
      /** @type {RegExp} */ message,
      field = 'backend',
    ) => assert.rejects(load(SMALL, options), { code: 'unsupported', field, message });
    await impossible({ backend: 'native', addon: undefined }, /is not installed/);
    await impossible({ addon: `${ROOT}package.json` }, /is not an addon of wisp/, 'addon');
    await impossible({ addon: `${ROOT}no.node` }, /is not installed/, 'addon');
    const wasm = `${ROOT}js/wisp-simd128.wasm`;
    await impossible({ backend: 'native', addon: undefined, wasm }, /wasm is for WebAssembly/);
    const wrong = /** @type {any} */ ({ backend: 'gpu' });
    await assert.rejects(load(SMALL, wrong), { code: 'argument', field: 'backend' });
    await assert.rejects(load(SMALL, { backend: 'native', kernels }), { code: 'unsupported' });
  });

  test('keeps the order: single texts first, progress, aborts, gathered calls', async () => {
    const embedder = await load(undefined, { workers: 1 });
    const bulk = shortTexts(600, 0);
    const order = /** @type {string[]} */ ([]);
    let done = 0;
    const large = embedder.embed(bulk, {
      onProgress: (progress) => {
        assert.ok(progress.done > done && progress.total === bulk.length);
        done = progress.done;
      },
    });
    const expected = large.then((rows) => (order.push('bulk'), rows));
    const singles = bulk.slice(0, 50).map((text) => embedder.embed(text));
    const each = Promise.all(singles).then((rows) => (order.push('singles'), rows));
    const abort = new AbortController();
    const aborted = embedder.embed(bulk, { signal: abort.signal });
    abort.abort();
    await assert.rejects(aborted, { name: 'AbortError', code: 'cancelled' });
    const rows = await expected;
    (await each).forEach((row, i) => assert.deepEqual(row.row(0), rows.row(i)));
    assert.deepEqual(order, ['singles', 'bulk']);
    assert.equal(done, bulk.length);
    const again = embedder.embed(bulk);
    const destroyed = assert.rejects(again, { code: 'closed' });
    await embedder.destroy();
    await destroyed;
  });

  test('gives up a call that is computed, and only that', async () => {
    const engine = new NativeEngine(createRequire(import.meta.url)(ADDON), true);
    const file = readFileSync(DEFAULT_MODEL_PATH);
    await engine.open(new Uint8Array(file.buffer, file.byteOffset, file.length), {});
    const expected = await engine.embed(['after']);
    engine.cancel(); // nothing is computed
    for (let i = 0; i < 20; i++) {
      const long = engine.embed(shortTexts(i % 2 ? 3000 : 1, i));
      if (i % 4 > 1) await new Promise((next) => setImmediate(next));
      engine.cancel();
      const end = await long.then(
        () => 'done',
        ({ code }) => code,
      );
      if (i % 2) assert.equal(end, 'cancelled');
      assert.deepEqual(await engine.embed(['after']), expected);
    }
    const busy = engine.embed(shortTexts(3000, 0));
    assert.throws(() => engine.info(), /busy/);
    await Promise.all([assert.rejects(busy, { code: 'cancelled' }), engine.close()]);
    assert.throws(() => engine.info(), { code: 'closed' });
    await engine.close();
  });

  test('engines of one model share it, whoever opened it', async () => {
    const [one, two] = await Promise.all([
      load(undefined, { workers: 2 }),
      load(undefined, { workers: 2 }),
    ]);
    const model = one.info().residentBytes;
    assert.ok(one.stats().memoryBytes < 0.6 * model, `${one.stats().memoryBytes} of ${model}`);
    const rows = await one.embed(TEXTS);
    await one.close();
    assert.deepEqual(await two.embed(TEXTS), rows);
    assert.ok(two.stats().memoryBytes >= model);
    // An open that is given up leaves the model to the one that waits for it.
    await two.close();
    const abort = new AbortController();
    const given = load(undefined, { workers: 1, signal: abort.signal });
    const other = load(undefined, { workers: 1 });
    setImmediate(() => abort.abort());
    await given.then(
      (embedder) => embedder.close(),
      (error) => assert.equal(error.code, 'cancelled'),
    );
    const third = await other;
    assert.deepEqual(await third.embed(TEXTS), rows);
    await third.close();
  });

  test('loading and closing leaves no memory and no thread', async () => {
    const cycles = extent('cycles', 200, 60);
    const cycle = async () => {
      const embedder = await load(undefined, { workers: 2 });
      await embedder.embed(['a', 'b']);
      await embedder.close();
    };
    for (let i = 0; i < 10; i++) await cycle();
    collectGarbage();
    const before = { rss: process.memoryUsage().rss, threads: threads() };
    for (let i = 0; i < cycles; i++) await cycle();
    collectGarbage();
    const { rss } = process.memoryUsage();
    assert.equal(threads(), before.threads);
    // Each cycle that kept its model would add 14 MB.
    assert.ok(rss < before.rss + 60e6, `${before.rss} became ${rss}`);
  });

  test('what nobody closes ends when garbage is collected', async () => {
    const before = threads();
    const use = async () => {
      const embedder = await load(SMALL, { workers: 3 });
      await embedder.embed(['a']);
      assert.equal(threads(), before + 3);
    };
    await use();
    await until(() => {
      collectGarbage();
      return threads() === before;
    }, 'threads stay');
  });

  test('runs in worker threads, which end while it computes', async () => {
    const script = `
      const { parentPort } = require('node:worker_threads');
      const load = async () => {
        const { Embedder } = await import(${JSON.stringify(ENTRY)});
        const embedder = await Embedder.load(undefined, { addon: ${JSON.stringify(ADDON)}, workers: 2 });
        parentPort.postMessage(await embedder.embed(['a', 'b']));
        for (;;) await embedder.embed(Array.from({ length: 400 }, (_, i) => 'some text ' + i));
      };
      load();`;
    const here = await load(undefined, { workers: 1 });
    const expected = plain(await here.embed(['a', 'b']));
    const before = threads();
    for (let round = 0; round < 5; round++) {
      const workers = [0, 1].map(() => new Worker(script, { eval: true }));
      const rows = await Promise.all(
        workers.map((worker) => new Promise((done) => worker.once('message', done))),
      );
      rows.forEach((row) => assert.deepEqual(new Float32Array(row), expected));
      await new Promise((done) => setTimeout(done, 5 * round));
      await Promise.all(workers.map((worker) => worker.terminate()));
    }
    await until(() => threads() <= before, 'threads stay');
    assert.deepEqual(plain(await here.embed(['a', 'b'])), expected);
    await here.close();
  });

  test('a worker thread that ends just when its model is open leaves no memory', () => {
    const late = mkdtempSync(join(tmpdir(), 'wisp-late-'));
    try {
      const [shim, mark] = [join(late, 'late.so'), join(late, 'open')];
      execFileSync('gcc', [
        '-D_GNU_SOURCE',
        '-shared',
        '-fPIC',
        '-o',
        shim,
        `${ROOT}tests/oracle/late_model.c`,
      ]);
      const inWorker = `
        const { openSync, statSync } = require('node:fs');
        const addon = require(${JSON.stringify(ADDON)});
        const path = ${JSON.stringify(DEFAULT_MODEL_PATH)};
        const model = { descriptor: openSync(path), size: statSync(path).size };
        addon.openModel(addon.create(true), model);
        setTimeout(() => {}, 1e6);`;
      const script = `
        const { existsSync, rmSync } = require('node:fs');
        const { Worker } = require('node:worker_threads');
        const sizes = [];
        (async () => {
          for (let i = 0; i < 5; i++) {
            const worker = new Worker(${JSON.stringify(inWorker)}, { eval: true });
            while (!existsSync(${JSON.stringify(mark)})) await new Promise((done) => setTimeout(done, 5));
            await worker.terminate();
            rmSync(${JSON.stringify(mark)});
            sizes.push(process.memoryUsage().rss);
          }
          console.log(JSON.stringify(sizes));
        })();`;
      const env = { ...process.env, LD_PRELOAD: shim, WISP_LATE_MODEL: mark };
      const [, before, ...sizes] = JSON.parse(execFileSync(process.execPath, ['-e', script], { env }).toString()); // prettier-ignore
      // Each of the three that left its model would add 14 MB.
      assert.ok(sizes.at(-1) < before + 25e6, `${before} became ${sizes}`);
    } finally {
      rmSync(late, { recursive: true });
    }
  });

  test('the process ends by itself, and whenever it is asked to', async () => {
    const head = `
      import { Embedder } from ${JSON.stringify(ENTRY)};
      const addon = ${JSON.stringify(ADDON)};
      const texts = Array.from({ length: 2000 }, (_, i) => 'some text ' + i);
      const loading = Embedder.load(undefined, { addon, workers: 2 });`;
    const scripts = [
      'process.exit(0);',
      'setTimeout(() => process.exit(0), 5);',
      'setTimeout(() => process.exit(0), 40);',
      'const e = await loading; e.embed(texts); process.exit(0);',
      'const e = await loading; e.embed(texts); setTimeout(() => process.exit(0), 20);',
      'const e = await loading; e.embed(texts).catch(() => {}); setImmediate(() => e.destroy());',
      'const e = await loading; e.close(); process.exit(0);',
    ];
    for (const script of scripts) await run(`${head}${script}`);
    // Idle, it does not keep the process running; a call does.
    const out = await run(`${head}
      const e = await loading;
      e.embed(texts).then((rows) => console.log(rows.count));`);
    assert.equal(out, '2000\n');
  });

  describe('reads a model from its file', { skip: process.platform === 'win32' }, () => {
    const folder = mkdtempSync(join(tmpdir(), 'wisp-file-'));
    after(() => rmSync(folder, { recursive: true }));
    /** @param {string} name @param {string} from */
    const copy = (name, from) => {
      copyFileSync(from, join(folder, name));
      return join(folder, name);
    };
    /** Open files of this process. */
    const descriptors = () => readdirSync('/proc/self/fd').length;
    const buffers = () => process.memoryUsage().arrayBuffers;

    test('with the bits of its bytes, and no copy of them', async () => {
      collectGarbage();
      const before = { buffers: buffers(), descriptors: descriptors() };
      const one = await load(undefined, { workers: 2 });
      const two = await load(undefined, { workers: 1 });
      assert.ok(buffers() < before.buffers + 1e6, `${before.buffers} became ${buffers()}`);
      assert.equal(descriptors(), before.descriptors + 1, 'one file for both');
      const bytes = await load(new Uint8Array(readFileSync(DEFAULT_MODEL_PATH)), { workers: 1 });
      const rows = await one.embed(TEXTS);
      assert.deepEqual(await bytes.embed(TEXTS), rows);
      await one.close();
      assert.deepEqual(await two.embed(TEXTS), rows);
      await Promise.all([two.close(), bytes.close()]);
      assert.equal(descriptors(), before.descriptors);
    });

    test('which is closed where loading fails, and when nobody has it', async () => {
      await (await load(SMALL, { workers: 1 })).close();
      const before = descriptors();
      const page = join(folder, 'page.gguf');
      writeFileSync(page, '<!doctype html>');
      const empty = join(folder, 'empty.gguf');
      writeFileSync(empty, '');
      for (const [path, code] of [
        [page, 'format'],
        [empty, 'format'],
        [`${ROOT}package.json`, 'format'],
        [folder, 'io'],
        [join(folder, 'absent'), 'not_found'],
      ])
        await assert.rejects(load(path, { workers: 1 }), { code }, path);
      const aborted = { workers: 1, signal: AbortSignal.abort() };
      await assert.rejects(load(SMALL, aborted), { code: 'cancelled' });
      const use = async () => {
        await (await load(SMALL, { workers: 1 })).embed(['a']);
      };
      await use();
      await until(() => {
        collectGarbage();
        return descriptors() === before;
      }, 'files stay open');
    });

    test('which stays the one that was opened, whatever takes its name', async () => {
      const path = copy('replaced.gguf', smallCalibratedModel());
      const embedder = await load(path, { workers: 2, predictor: 'dense' });
      const dense = await embedder.embed(TEXTS);
      renameSync(copy('other.gguf', SMALL), path);
      await embedder.setSparse({ predictor: 'exact' }); // opens the model again
      const args = ['-m', smallCalibratedModel(), '--predictor', 'exact'];
      assert.deepEqual(plain(await embedder.embed(TEXTS)), programRows(args));
      await embedder.setSparse({ predictor: 'dense' });
      assert.deepEqual(await embedder.embed(TEXTS), dense);
      await embedder.close();
    });

    test('and notices that it was written to', async () => {
      const path = copy('changed.gguf', smallCalibratedModel());
      const embedder = await load(path, { workers: 1, predictor: 'dense' });
      utimesSync(path, 1, 1);
      const changed = {
        code: 'io',
        message: /changed\.gguf: the file changed after it was opened/,
      };
      await assert.rejects(embedder.setSparse({ predictor: 'exact' }), changed);
      await embedder.embed(['a']); // with the weights that it has
      truncateSync(path, 1000);
      await assert.rejects(embedder.embed(TEXTS), { code: 'io', message: /the file changed/ });
      await embedder.close();
    });
  });

  test('refuses calls by which it would write or free wrongly', async () => {
    const addon = createRequire(import.meta.url)(ADDON);
    for (const threaded of [false, true]) {
      const engine = addon.create(threaded);
      for (const file of [
        { descriptor: 1e300, size: 1 },
        { descriptor: 0, size: Infinity },
        { descriptor: -1, size: 1 },
      ])
        assert.throws(() => addon.openModel(engine, file), /Uint8Array or a file/);
      await addon.openModel(engine, new Uint8Array(readFileSync(SMALL)));
      addon.openSession(engine);
      const texts = ['', '', ''];
      let reads = 0;
      Object.defineProperty(texts, 0, { get: () => (reads++ ? 'long '.repeat(1000) : '') });
      const rows = new Float32Array(1000);
      assert.throws(() => addon.embed(engine, texts, undefined, 1, rows), /the texts changed/);
      assert.throws(() => addon.tokenize(engine, ['a', 'b']), /one text/);
      const closing = addon.close(engine);
      assert.throws(() => addon.close(engine), /the engine is closed/);
      await closing;
      assert.throws(() => addon.close(engine), /the engine is closed/);
    }
  });

  describe('as packages', () => {
    const folder = mkdtempSync(join(tmpdir(), 'wisp-addon-'));
    after(() => rmSync(folder, { recursive: true }));

    test('one of another version, or one that does not load, is left for WebAssembly', async () => {
      // The package's scripts, with other packages beside them.
      const scripts = join(folder, 'node_modules/wisp-engine');
      mkdirSync(scripts, { recursive: true });
      for (const part of ['js', 'models', 'package.json'])
        execFileSync('cp', ['-r', `${ROOT}${part}`, `${scripts}/`]);
      const names = ['gnu', 'musl'].map((c) => `@wisp-engine/linux-${process.arch}-${c}`);
      const put = (/** @type {string} */ name, /** @type {string} */ content) => {
        mkdirSync(join(folder, 'node_modules', name), { recursive: true });
        writeFileSync(join(folder, 'node_modules', name, 'index.js'), content);
      };
      put(names[0], "module.exports = { version: '0.0.9', create() {} };");
      put(names[1], "throw new Error('no such library');");
      const script = (/** @type {string} */ backend) => `
        const { Embedder } = await import(${JSON.stringify(`${scripts}/js/node.js`)});
        const loading = Embedder.load(undefined, { workers: 1, backend: '${backend}' });
        const embedder = await loading.catch(({ code, message }) => console.log(code, message));
        if (embedder) console.log(embedder.info().backend, embedder.info().reasons.backend);
        await embedder?.close();`;
      const version = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')).version;
      const reason =
        `${names[0]} is of version 0.0.9, and this is ${version}; ` +
        `${names[1]} cannot be loaded: no such library\n`;
      assert.equal(await run(script('auto')), `wasm ${reason}`);
      assert.equal(await run(script('native')), `unsupported backend: ${reason}`);
    });
  });
});
