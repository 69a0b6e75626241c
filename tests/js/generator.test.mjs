// SPDX-License-Identifier: Apache-2.0
// Generator in Node and in Chromium.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { dirname } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { writeModel } from '../../bench/generate/model.mjs';
import { serve } from '../../js/program/serve.js';
import { Generator } from '../../js/generate-node.js';
import { localLink } from '../../js/platform/link-local.js';
import { pickBuild } from '../../js/calls/load.js';
import { Embedder } from '../../js/node.js';
import { compileRead, readBytes } from '../../js/platform/platform-node.js';
import { sharedPart } from '../../js/files/source.js';
import { serveText } from '../../js/engine/text-worker.js';
import { openTeam } from '../../js/engine/threads.js';
import { launch } from './browsers.mjs';
import { cases } from './generator/cases.mjs';
import {
  BATCH,
  BEAMS,
  GRAMMAR,
  MESSAGES,
  PROMPT,
  PROMPTS,
  SCHEMA,
  SHIFTED,
} from './generator/inputs.mjs';
import { ADDON, ROOT, extent, noAddon, noTool, onlyInAll, smallModel, wisp } from './support.mjs';

const STORIES = `${ROOT}models/wisp-stories.gguf`;
const WORKER = new URL('../../js/generate-worker-node.js', import.meta.url);
const KILLER = new URL('./threads/killer-node.mjs', import.meta.url);
const killed = { script: `${ROOT}js/generate-worker-node.js`, asked: 'write' };
const encoder = smallModel();

/** Layers of more than 1 MB, which threads split output by output. */
const WIDE = `${ROOT}build/test-models/wide.gguf`;
mkdirSync(dirname(WIDE), { recursive: true });
writeModel(
  WIDE,
  {
    ...{ architecture: 'llama', layers: 2, hidden: 512, feedForward: 1024 },
    ...{ heads: 8, keyValueHeads: 4, headSize: 64, vocabulary: 600, tied: true },
  },
  'Q8_0',
);

const told = wisp(['generate', '-m', STORIES, '--text', PROMPT]);
assert.equal(told.code, 0, told.err);
const story = told.out.replace(/\n$/, '');

const replied = wisp(
  ['generate', '-m', STORIES, '--messages', '-', '--chat-format', 'plain', '-n', '40'],
  JSON.stringify(MESSAGES),
);
assert.equal(replied.code, 0, replied.err);
const reply = JSON.parse(replied.out).content;

/**
 * Returns what the native program writes after PROMPT.
 * @param {string[]} options
 * @param {string} [prompt]
 */
function nativeText(options, prompt = PROMPT) {
  const { code, err, out } = wisp(['generate', '-m', STORIES, ...options], prompt);
  assert.equal(code, 0, err);
  return out.replace(/\n$/, '');
}

/** @param {string} lines */
const fromLines = (lines) => lines.split('\n').map((line) => JSON.parse(line));

const folder = `${ROOT}build/test-models`;
writeFileSync(`${folder}/names.gbnf`, GRAMMAR);
writeFileSync(`${folder}/schema.json`, JSON.stringify(SCHEMA));

/** @type {import('./generator/inputs.mjs').Native} */
const native = {
  grammar: nativeText(['--grammar', `${folder}/names.gbnf`]),
  schema: nativeText(['--json-schema', `${folder}/schema.json`, '-n', '100']),
  batch: PROMPTS.map(({ prompt, maxTokens = BATCH.maxTokens }) => {
    const line = nativeText(['--data', '-', '-n', String(maxTokens)], JSON.stringify(prompt));
    return JSON.parse(line);
  }),
  beams: fromLines(nativeText(['--beams', String(BEAMS.beams), '-n', String(BEAMS.maxTokens)])),
  shifted: SHIFTED.map(({ prompt, keep, maxTokens }) => {
    const shift = ['--context-shift', '--bias', '1=-inf', '--bias', '2=-inf'];
    if (keep) shift.push('--keep', String(keep));
    return nativeText([...shift, '-n', String(maxTokens)], prompt);
  }),
};

/** Generators that run native code. */
class NativeGenerator extends Generator {
  /** @type {typeof Generator.load} */
  static async load(source, options) {
    const generator = await Generator.load(source, { addon: ADDON, ...options });
    assert.equal(generator.info().backend, 'native');
    return generator;
  }
}

/** Cases of workers that are given, which are for WebAssembly. */
const OF_WORKERS = /^a (helper|worker) that ends /;

for (const [Kind, workers] of /** @type {const} */ ([
  [Generator, 1],
  [Generator, 0],
  [NativeGenerator, 1],
  [NativeGenerator, 0],
])) {
  const isNative = Kind === NativeGenerator;
  const skip = isNative && noAddon;
  describe(`Node, ${isNative ? 'native code, ' : ''}${workers} workers`, { skip }, () => {
    for (const [name, run] of Object.entries(cases)) {
      if (isNative && OF_WORKERS.test(name)) continue;
      test(name, () =>
        run({
          Generator: Kind,
          Embedder,
          story,
          reply,
          native,
          decoder: STORIES,
          wide: WIDE,
          shared: true,
          encoder,
          makeWorker: () => new Worker(WORKER),
          makeKiller: () => new Worker(KILLER, { workerData: killed }),
          killWorker: (worker) => void worker.terminate(),
          workers,
        }),
      );
    }
  });
}

test('await using closes a generator', async () => {
  const generator = await Generator.load();
  await generator[Symbol.asyncDispose]();
  await assert.rejects(generator.generate('x').text(), { code: 'closed' });
});

test('a text that nobody awaits is not an unhandled rejection', async () => {
  const generator = await Generator.load();
  generator.generate('x'.repeat(3000));
  await assert.rejects(generator.generate('x'.repeat(3000)).text(), { code: 'argument' });
  await generator.close();
});

test('a worker hears a stop between two slices, and writes the next text', async () => {
  const build = pickBuild();
  const module = await compileRead(
    () => new URL(`../../js/wisp-generate-${build}.wasm`, import.meta.url),
  );
  const bytes = await readBytes(STORIES);
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  const replies = /** @type {any[]} */ ([]);
  const receive = /** @type {(request: any) => Promise<void>} */ (
    serveText((reply) => void replies.push(structuredClone(reply)))
  );
  await receive({ id: 1, type: 'open', module, model: sharedPart(shared), options: {} });
  const plain = { seed: 0, stop: [], stopTokens: [], logitBias: [] };
  const endless = { prompt: PROMPT, options: { ...plain, logitBias: [[2, -Infinity]] } };
  const writing = receive({ id: 2, type: 'write', texts: [endless] });
  await receive({ type: 'stop' });
  await writing;
  const stopped = replies.at(-1);
  assert.equal(stopped.type, 'done', JSON.stringify(stopped));
  assert.ok(stopped.value.results[0].tokens < 507, 'it was written to its end');
  await receive({ id: 3, type: 'write', texts: [{ prompt: PROMPT, options: plain }] });
  const text = replies
    .filter(({ id }) => id === 3)
    .flatMap(({ value }) => value.pieces)
    .map((piece) => piece.text)
    .join('');
  assert.equal(text, story);
});

test('a text on the calling thread hears its stop from a pool that is destroyed', async () => {
  const heard = /** @type {string[]} */ ([]);
  const link = localLink(
    () =>
      async ({ type }) =>
        void heard.push(type),
  )({
    reply() {},
    end() {},
  });
  link.post({ type: 'stop' });
  link.post({ type: 'embed' });
  await link.stop();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(heard, ['stop']);
});

test('a team is of the helpers before the first that does not start', async () => {
  const build = pickBuild();
  const module = await compileRead(
    () => new URL(`../../js/wisp-threads-${build}.wasm`, import.meta.url),
  );
  for (const throws of [false, true]) {
    const stopped = /** @type {number[]} */ ([]);
    const team = await openTeam(module, new Uint8Array(0), 5, (request) => {
      const { index } = /** @type {{ index: number }} */ (request);
      if (index === 3 && throws) throw new Error('this scope makes no workers');
      const ready = index === 3 ? Promise.reject(new Error('it ended')) : Promise.resolve();
      return { ready, stop: () => void stopped.push(index) };
    });
    assert.equal(team?.threads, 3);
    assert.equal(team.missing, throws ? 'this scope makes no workers' : 'it ended');
    assert.deepEqual(stopped, throws ? [4] : [3, 4]);
    team?.stop();
    assert.deepEqual(stopped.slice(-2), [1, 2]);
  }
});

test('a module without shared memory has one thread, and the reason says so', async () => {
  const wasm = new URL('../../js/wisp-generate-simd128.wasm', import.meta.url);
  const generator = await Generator.load(undefined, { wasm, threads: 2 });
  const { threads, reasons } = generator.info();
  await generator.close();
  assert.equal(threads, 1);
  assert.equal(reasons.threads, '1 of 2 threads started: the module shares no memory');
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

test('200 times load, generate, close: memory is flat, nothing is left', async () => {
  const times = extent('cycles', 200, 60);
  /** @param {number} n */
  const cycle = async (n) => {
    for (let i = 0; i < n; i++) {
      const generator = await Generator.load(undefined, { workers: 1 });
      await generator.generate(PROMPT, { maxTokens: 8 }).text();
      await (i % 2 ? generator.close() : generator.destroy());
    }
  };
  const inUse = async () => {
    for (let i = 0; i < 3; i++) {
      collectGarbage();
      await new Promise((done) => setTimeout(done, 20));
    }
    const { heapUsed, external, rss } = process.memoryUsage();
    return { owned: (heapUsed + external) / 1e6, resident: rss / 1e6 };
  };
  await cycle(times / 4);
  const threads = readdirSync('/proc/self/task').length;
  const first = await inUse();
  await cycle((times * 3) / 4);
  const last = await inUse();
  assert.ok(last.owned < first.owned + 1, `${first.owned} MB became ${last.owned} MB`);
  assert.ok(last.resident < first.resident + 100, `${first.resident} MB, ${last.resident} MB`);
  assert.equal(readdirSync('/proc/self/task').length, threads);
});

test('a terminated worker takes its helpers with it', async () => {
  const tasks = () => readdirSync('/proc/self/task').length;
  const before = tasks();
  /** @type {Worker | undefined} */
  let worker;
  const generator = await Generator.load(WIDE, {
    threads: 3,
    worker: () => (worker = new Worker(WORKER)),
  });
  await generator.generate(PROMPT, { maxTokens: 3 }).text();
  assert.ok(tasks() >= before + 3, 'no helpers');
  const writing = generator.generate(PROMPT, { maxTokens: 500 }).text();
  void worker?.terminate();
  await assert.rejects(writing, { code: 'worker' });
  await generator.destroy();
  for (let i = 0; i < 500 && tasks() > before; i++)
    await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(tasks() <= before, `${before} threads became ${tasks()}`);
});

test('one instance writes texts without end in the same memory', async () => {
  const generator = await Generator.load(undefined, { workers: 1 });
  const most = { logitBias: { 2: -Infinity } };
  /** @param {number} n */
  const write = async (n) => {
    for (let i = 0; i < n; i++) await generator.generate(`${i} ${PROMPT}`, most).text();
    return generator.stats().memoryBytes;
  };
  // The first texts find how much room the allocator needs between blocks.
  const before = await write(5);
  const after = await write(10);
  assert.ok(after <= before, `${before} bytes became ${after}`);
  await generator.close();
});

const little = freemem() < 8e9 && 'needs 8 GB of free memory';
test(
  'a model of more than 2 GB writes what it writes natively',
  { skip: onlyInAll || little },
  async () => {
    const path = `${ROOT}build/test-models/large.gguf`;
    writeModel(
      path,
      {
        ...{ architecture: 'llama', layers: 2, hidden: 4096, feedForward: 86016 },
        ...{ heads: 32, keyValueHeads: 8, headSize: 128, vocabulary: 600, tied: true },
      },
      'Q8_0',
      { zeros: true },
    );
    try {
      const native = wisp(['generate', '-m', path, '--text', 'a b c', '-n', '6']);
      const generator = await Generator.load(path);
      const text = await generator.generate('a b c', { maxTokens: 6 }).text();
      assert.ok(generator.stats().memoryBytes > 2 ** 31);
      assert.equal(`${text}\n`, native.out);
      await generator.close();
    } finally {
      rmSync(path);
    }
  },
);

describe('Chromium', { skip: noTool('chromium') }, () => {
  /** @type {import('./browsers.mjs').Tab} */
  let tab;
  /** @type {Record<'plain' | 'isolated', Awaited<ReturnType<typeof serve>>>} */
  let servers;
  before(async () => {
    servers = { plain: await serve(), isolated: await serve({ isolated: true }) };
    tab = await launch.chromium();
  });
  after(async () => {
    await tab.close();
    await Promise.all(Object.values(servers).map((server) => server.close()));
  });
  for (const kind of /** @type {const} */ (['plain', 'isolated'])) {
    describe(`${kind} page`, { skip: kind === 'plain' && onlyInAll }, () => {
      before(() => tab.open(`${servers[kind].origin}/tests/js/page/blank.html`));
      for (const name of Object.keys(cases)) {
        test(name, () => tab.call('runTextCase', name, story, reply, native));
      }
    });
  }
});
