// SPDX-License-Identifier: Apache-2.0
// Generators that compute with the addon: the bits of the program, and what becomes of memory, threads and processes.
// tests/js/generator.test.mjs runs the cases of all generators with it.
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { createRequire } from 'node:module';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { writeModel } from '../../bench/generate/model.mjs';
import { Generator, WispError } from '../../js/generate-node.js';
import { NativeTextEngine } from '../../js/native/native-text-engine.js';
import { holdFile } from '../../js/files/model-file-node.js';
import { ENDLESS } from './generator/env.mjs';
import { PROMPT } from './generator/inputs.mjs';
import { ADDON, ROOT, extent, noAddon, onlyInAll, wisp } from './support.mjs';
import { collectGarbage, run, threads, until } from './this-process.mjs';

const STORIES = `${ROOT}models/wisp-stories.gguf`;
const ENTRY = new URL('../../js/generate-node.js', import.meta.url).href;

/** @param {object} [options] */
const load = (options) => Generator.load(undefined, { addon: ADDON, threads: 2, ...options });

describe('the addon generates', { skip: noAddon }, () => {
  describe('the bits of the program: the text, and the state with its keys and values', () => {
    const { kernels } = noAddon ? { kernels: [] } : createRequire(import.meta.url)(ADDON);
    for (const set of /** @type {string[]} */ (kernels)) {
      test(set, async () => {
        const state = `${ROOT}build/test-models/addon-${set}.state`;
        rmSync(state, { force: true });
        const args = ['-m', STORIES, '--text', PROMPT, '-n', '200', '--cpu', set];
        const { code, out, err } = wisp(['generate', ...args, '--state', state]);
        assert.equal(code, 0, err);
        for (const options of [{ workers: 0 }, { threads: 1 }, { threads: 3 }]) {
          const generator = await load({ kernels: set, ...options });
          const text = await generator.generate(PROMPT, { maxTokens: 200 }).text();
          assert.equal(`${text}\n`, out);
          assert.deepEqual(Buffer.from(await generator.saveState()), readFileSync(state));
          const { backend, kernels: chosen, threads: found } = generator.info();
          assert.deepEqual([backend, chosen, found], ['native', set, options.threads ?? 1]);
          await generator.close();
        }
        rmSync(state);
      });
    }
  });

  test('a prompt cache: another generator knows the prompt', async () => {
    const promptCache = join(mkdtempSync(join(tmpdir(), 'wisp-')), 'texts');
    const prompt = 'One day Tom and Sue went to the park with a dog. '.repeat(8);
    const results = [];
    for (const options of [{}, { promptCache }, { promptCache, promptCacheSize: 1e8 }]) {
      const generator = await load(options);
      results.push(await generator.generate(prompt, { maxTokens: 40 }).result());
      await generator.close();
    }
    const [plain, first, second] = results;
    assert.equal(first.reusedTokens, 0);
    assert.equal(second.reusedTokens, Math.floor((plain.promptTokens - 1) / 64) * 64);
    assert.deepEqual([first.text, second.text], [plain.text, plain.text]);
    const files = readdirSync(promptCache);
    for (const file of files) truncateSync(join(promptCache, file), 100);
    const generator = await load({ promptCache });
    assert.equal(await generator.generate(prompt, { maxTokens: 40 }).text(), plain.text);
    await generator.close();
    const small = load({ promptCache, promptCacheSize: 1000 });
    await assert.rejects(small, { code: 'argument', field: 'promptCacheSize' });
    const modules = load({ promptCache, backend: 'wasm', threads: undefined });
    await assert.rejects(modules, { code: 'unsupported', field: 'promptCache' });
    rmSync(promptCache, { recursive: true });
  });

  test('attention and cacheType choose what tokens look at, and how it is kept', async () => {
    const prompt = 'One day Tom and Sue went to the park with a dog. '.repeat(20);
    const write = async (/** @type {any} */ options) => {
      const generator = await load(options);
      const text = await generator.generate(prompt, { maxTokens: 40, temperature: 0 }).text();
      await generator.close();
      return text;
    };
    const whole = await write({ cacheType: 'int8' });
    for (const attention of ['mass,mass=1000', 'full/quest', 'minference,budget=100/full'])
      assert.equal(await write({ attention, cacheType: 'int8' }), whole);
    assert.notEqual(await write({ attention: 'local,window=64,sinks=0' }), whole);
    await assert.rejects(load({ attention: 'quest' }), {
      code: 'argument',
      field: 'attention',
      message: /as in "full\/quest"/,
    });
    await assert.rejects(load({ cacheType: 'int4' }), { code: 'argument', field: 'cacheType' });
    for (const [compute, cacheType, used] of /** @type {any} */ ([
      ['f32', undefined, 'f32'],
      ['int8', 'auto', 'int8'],
      ['int8', 'f16', 'f16'],
    ])) {
      const generator = await load({ compute, cacheType });
      assert.equal(generator.info().cacheType, used);
      await generator.close();
    }
  });

  test('a limit of memory for keys and values changes no text', async () => {
    const prompt = 'One day Tom and Sue went to the park with a dog. '.repeat(20);
    const texts = [];
    for (const options of [{}, { kvMemory: 200000 }]) {
      const generator = await load(options);
      texts.push(await generator.generate(prompt, { maxTokens: 40 }).text());
      await generator.close();
    }
    assert.equal(texts[1], texts[0]);
    await assert.rejects(load({ kvMemory: 1000 }), { code: 'argument', field: 'kvMemory' });
  });

  test('says why it was chosen or not', async () => {
    const reason = async (/** @type {any} */ options) => {
      const generator = await Generator.load(undefined, { threads: 1, ...options });
      const { backend, reasons } = generator.info();
      assert.equal(generator.stats().backend, backend);
      await generator.close();
      return `${backend}: ${reasons.backend}`;
    };
    assert.match(await reason({ addon: ADDON }), /^native: .*wisp\.node \d+\.\d+\.\d+$/);
    assert.match(await reason({}), /^wasm: @wisp-engine\/linux-\w+-gnu is not installed; .*-musl/);
    assert.equal(await reason({ backend: 'wasm', addon: ADDON }), 'wasm: asked for');
    const worker = new URL('../../js/generate-worker-node.js', import.meta.url);
    assert.equal(
      await reason({ addon: ADDON, worker }).catch(({ field }) => field),
      'addon',
      'an addon that is asked for is not left out silently',
    );
    await assert.rejects(Generator.load(undefined, { backend: 'native' }), {
      code: 'unsupported',
      field: 'backend',
    });
    await assert.rejects(load({ portable: true }), { code: 'unsupported' });
    await assert.rejects(load({ threads: 9 }), { code: 'argument', field: 'threads' });
  });

  test('refuses what JavaScript never sends', async () => {
    /** @type {import('../../types/addon.js').Addon} */
    const addon = createRequire(import.meta.url)(ADDON);
    const handle = addon.create(true);
    await addon.openModel(handle, new Uint8Array(readFileSync(STORIES)));
    addon.openSession(handle);
    const part = (/** @type {number} */ number, size = 0) => [number, 0, 0, 0, size, 0, 0, 0];
    for (const bytes of [
      [],
      [1],
      part(8), // a prompt of no text
      part(0, 1),
      [...part(0), ...part(9)],
      [...part(0), ...part(1, 7), ...part(0)], // a number of 7 bytes
      [...part(0), ...part(7, 1), 65], // a conversation of one line
      [...part(0), 255, 255, 255, 255, 255, 255, 255, 255],
    ])
      await assert.rejects(addon.openWriting(handle, Uint8Array.from(bytes), 0), { status: 1 });
    const noJson = Uint8Array.from([...part(0), ...part(7, 2), 65, 10]); // a conversation
    await assert.rejects(addon.openWriting(handle, noJson, 0), /not a JSON number/);
    const wrong = /** @type {any} */ (addon);
    assert.throws(() => wrong.openWriting(handle, 'x', 0), /not a Uint8Array/);
    assert.throws(() => wrong.openWriting(handle, new Uint8Array(0)), /number/);
    assert.throws(() => wrong.openSearch(handle, [], 1, 1, 1, new Int32Array(0)));
    assert.throws(() => wrong.score(handle, [5], 0, new Float32Array(1)), /not an Int32Array/);
    assert.throws(() => wrong.score(handle, Int32Array.of(5), 2, new Float32Array(1)), /first/);
    assert.throws(() => wrong.logits(handle, Int32Array.of(5), new Float32Array(9)), /do not fit/);
    assert.throws(() => wrong.run(handle, 1, () => {}), /writes nothing/);
    const none = { descriptor: -1, size: 5 };
    assert.throws(() => wrong.openModel(addon.create(true), none), /a Uint8Array or a file/);
    for (const id of [-1, 1 << 30]) {
      await assert.rejects(
        addon.detokenize(handle, Int32Array.of(id), false),
        /id -?\d+, but there are/,
      );
    }
    await addon.close(handle);
  });

  test('generators of one model share it', async () => {
    const [one, two] = await Promise.all([load(), load({ workers: 2 })]);
    const text = await one.generate(PROMPT).text();
    const shared = one.stats().memoryBytes;
    const texts = Array.from({ length: 6 }, () => two.generate(PROMPT).text());
    for (const each of await Promise.all(texts)) assert.equal(each, text);
    await two.close();
    assert.equal(await one.generate(PROMPT).text(), text);
    const { residentBytes } = one.info();
    assert.ok(one.stats().memoryBytes > shared + residentBytes / 2, 'each has a model of its own');
    await one.close();
  });

  test('an engine stops, is cancelled, and refuses what it cannot do meanwhile', async () => {
    const engine = new NativeTextEngine(createRequire(import.meta.url)(ADDON), true);
    const file = readFileSync(STORIES);
    await engine.open(new Uint8Array(file.buffer, file.byteOffset, file.length), {});
    const plain = { seed: 0, stop: [], stopTokens: [], logitBias: [] };
    const texts = (/** @type {object} */ options) => [
      { prompt: PROMPT, options: /** @type {any} */ ({ ...plain, ...options }) },
    ];
    const endless = texts({ contextShift: true, logitBias: [[1, -Infinity], [2, -Infinity]] }); // prettier-ignore
    /** @param {(work: import('../../types/internal.js').Work) => unknown} [first] */
    const write = async (first) => {
      const work = await engine.write(endless);
      let parts = 0;
      first?.(work);
      const end = await work.run(0.001, () => ++parts === 3 && work.stop?.());
      work.close();
      return { parts, end };
    };
    const { parts, end } = await write();
    assert.ok(parts >= 3 && end.ended === false && end.results[0].tokens > 3);
    assert.equal((await write((work) => work.stop?.())).parts, 0);
    // A request that was cancelled just after it was computed does not stop what follows.
    for (let i = 0; i < 50; i++) {
      const scored = engine.score(PROMPT, 1);
      if (i % 2) await new Promise((next) => setImmediate(next));
      engine.cancel();
      await scored.catch(({ code }) => assert.equal(code, 'cancelled'));
      if (i % 8 === 0) assert.ok((await write()).parts >= 3);
    }
    const work = await engine.write(endless);
    await assert.rejects(engine.score(PROMPT, 1), /the engine is writing/);
    await assert.rejects(engine.write(endless), /the engine is writing/);
    await assert.rejects(engine.saveState(), /the engine is writing/);
    const running = work.run(0.001, () => {});
    await assert.rejects(engine.detokenize(Int32Array.of(5), false), /busy/);
    assert.throws(() => work.close(), /busy/);
    engine.cancel();
    await assert.rejects(running, { code: 'cancelled' });
    work.close();
    await assert.rejects(
      work.run(0.001, () => {}),
      /writes nothing/,
    );
    const other = (await engine.write(endless)).run(0.001, () => {});
    await Promise.all([assert.rejects(other, { code: 'cancelled' }), engine.close()]);
    work.close();
    work.stop?.();
  });

  test('writes on while the event loop is busy', async () => {
    const generator = await load();
    const shift = { contextShift: true, logitBias: { 1: -Infinity, 2: -Infinity } };
    const writing = generator.generate(PROMPT, shift)[Symbol.asyncIterator]();
    await writing.next();
    const before = process.cpuUsage();
    const asleep = new Int32Array(new SharedArrayBuffer(4));
    // This thread sleeps, so that what the process computes are tokens.
    for (let i = 0; process.cpuUsage(before).user < 50_000; i++) {
      assert.ok(i < 2000, 'nothing is computed');
      Atomics.wait(asleep, 0, 0, 10);
    }
    await writing.return?.();
    await generator.close();
  });

  test('reads the file by itself, and notices what is wrong with it', async () => {
    const path = `${ROOT}build/test-models/read.gguf`;
    copyFileSync(STORIES, path);
    const generator = await Generator.load(path, { addon: ADDON });
    const text = await generator.generate(PROMPT, { maxTokens: 9 }).text();
    rmSync(path); // it stays open
    await generator.setSparse({ predictor: 'dense' });
    assert.equal(await generator.generate(PROMPT, { maxTokens: 9 }).text(), text);
    await generator.close();
    const none = Generator.load(path, { addon: ADDON });
    await assert.rejects(none, { code: 'not_found', message: /read\.gguf/ });
    await assert.rejects(Generator.load(ROOT, { addon: ADDON }), { message: /is a folder/ });
    const page = Generator.load(`${ROOT}web-demo/index.html`, { addon: ADDON });
    await assert.rejects(page, { code: 'format', message: /HTML/ });
    writeFileSync(path, readFileSync(STORIES).subarray(0, 100_000));
    const part = Generator.load(path, { addon: ADDON });
    await assert.rejects(part, { code: 'format', message: /read\.gguf/ });
    rmSync(path);
    const bytes = await Generator.load(readFileSync(STORIES), { addon: ADDON });
    assert.equal(await bytes.generate(PROMPT, { maxTokens: 9 }).text(), text);
    await bytes.close();
    // A file that another program writes to while it is read.
    const reading = { signal: new AbortController().signal, progress() {} };
    const { model, release } = await holdFile(STORIES, reading);
    const { descriptor, size } = /** @type {import('../../types/addon.js').ModelFile} */ (model);
    const changed = {
      descriptor,
      size,
      check() {
        throw new WispError('io', 'changed');
      },
    };
    const engine = new NativeTextEngine(createRequire(import.meta.url)(ADDON), true);
    await assert.rejects(engine.open(changed, {}), { code: 'io' });
    release();
    release();
  });

  const little = freemem() < 10e9 && 'needs 10 GB of free memory';
  test('a model of more than 4 GB', { skip: onlyInAll || little }, async () => {
    const shape = {
      architecture: /** @type {const} */ ('llama'),
      ...{ layers: 4, hidden: 1024, heads: 8, keyValueHeads: 2 },
      ...{ headSize: 128, vocabulary: 600, tied: true },
    };
    const write = (/** @type {string} */ name, /** @type {number} */ feedForward) => {
      const path = `${ROOT}build/test-models/${name}.gguf`;
      writeModel(path, { ...shape, feedForward }, 'Q8_0', { zeros: true });
      return path;
    };
    // Weights of 0 add nothing, however many there are.
    const [huge, small] = [write('huge', 350_208), write('small', 32)];
    try {
      const { code, out, err } = wisp(['generate', '-m', small, '--text', 'a b c', '-n', '6']);
      assert.equal(code, 0, err);
      const generator = await Generator.load(huge, { addon: ADDON });
      assert.equal(`${await generator.generate('a b c', { maxTokens: 6 }).text()}\n`, out);
      const { modelBytes } = generator.info();
      assert.ok(modelBytes > 2 ** 32);
      await generator.close();
      const peak =
        1024 * Number(/VmHWM:\s+(\d+)/.exec(String(readFileSync('/proc/self/status')))?.[1]);
      assert.ok(peak < 1.3 * modelBytes, `${peak} bytes: the model is there twice`);
    } finally {
      rmSync(huge);
      rmSync(small);
    }
  });

  test('loading, writing and closing leave no memory and no thread', async () => {
    const cycles = extent('cycles', 200, 60);
    const cycle = async (/** @type {number} */ i) => {
      const generator = await load();
      if (i % 3 === 0) await generator.generate(PROMPT, { maxTokens: 8 }).text();
      if (i % 3 === 1) generator.generate(PROMPT, ENDLESS).text().catch(() => {}); // prettier-ignore
      if (i % 3 === 2) await generator.beamSearch(PROMPT, { maxTokens: 3 });
      await (i % 2 ? generator.close() : generator.destroy());
    };
    for (let i = 0; i < 12; i++) await cycle(i);
    collectGarbage();
    const before = { rss: process.memoryUsage().rss, threads: threads() };
    for (let i = 0; i < cycles; i++) await cycle(i);
    collectGarbage();
    const { rss } = process.memoryUsage();
    assert.ok(threads() <= before.threads);
    // Each cycle that kept its keys and values would add a megabyte, or its model another.
    assert.ok(rss < before.rss + 30e6, `${before.rss} became ${rss}`);
  });

  test('what nobody closes ends when garbage is collected', async () => {
    const before = threads();
    const use = async () => {
      const generator = await load({ threads: 3 });
      await generator.generate(PROMPT, { maxTokens: 3 }).text();
      assert.equal(threads(), before + 3);
    };
    await use();
    await until(() => {
      collectGarbage();
      return threads() === before;
    }, 'threads stay');
  });

  test('runs in worker threads, which end while it writes', async () => {
    const script = `
      const { parentPort } = require('node:worker_threads');
      const load = async () => {
        const { Generator } = await import(${JSON.stringify(ENTRY)});
        const generator = await Generator.load(undefined, { addon: ${JSON.stringify(ADDON)}, threads: 2 });
        parentPort.postMessage(await generator.generate(${JSON.stringify(PROMPT)}).text());
        const shift = { contextShift: true, logitBias: { 1: -Infinity, 2: -Infinity } };
        await generator.generate(${JSON.stringify(PROMPT)}, shift).text();
      };
      load();`;
    const here = await load();
    const expected = await here.generate(PROMPT).text();
    const before = threads();
    for (let round = 0; round < 4; round++) {
      const workers = [0, 1].map(() => new Worker(script, { eval: true }));
      const texts = await Promise.all(
        workers.map((worker) => new Promise((done) => worker.once('message', done))),
      );
      for (const text of texts) assert.equal(text, expected);
      await new Promise((done) => setTimeout(done, 5 * round));
      await Promise.all(workers.map((worker) => worker.terminate()));
    }
    await until(() => threads() <= before, 'threads stay');
    assert.equal(await here.generate(PROMPT).text(), expected);
    await here.close();
  });

  test('the process ends by itself, and whenever it is asked to', async () => {
    const head = `
      import { Generator } from ${JSON.stringify(ENTRY)};
      const shift = { contextShift: true, logitBias: { 1: -Infinity, 2: -Infinity } };
      const loading = Generator.load(undefined, { addon: ${JSON.stringify(ADDON)}, threads: 2 });`;
    const scripts = [
      'setTimeout(() => process.exit(0), 5);',
      "const g = await loading; g.generate('a', shift); process.exit(0);",
      "const g = await loading; g.generate('a', shift); setTimeout(() => process.exit(0), 20);",
      "const g = await loading; for await (const p of g.generate('a', shift)) process.exit(0);",
      "const g = await loading; g.generate('a', shift).text().catch(() => {}); setImmediate(() => g.destroy());",
      "const g = await loading; g.generate('a'); g.close(); process.exit(0);",
    ];
    for (const script of scripts) await run(`${head}${script}`);
    // Idle, it does not keep the process running; a text does.
    const out = await run(`${head}
      const g = await loading;
      g.generate(${JSON.stringify(PROMPT)}).result().then(({ end }) => console.log(end));`);
    assert.equal(out, 'token\n');
  });
});
