// SPDX-License-Identifier: Apache-2.0
// The option threads of Embedder.load, in Node and in real browsers.
import assert from 'node:assert/strict';
import { openAsBlob, readdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { serve } from '../../js/program/serve.js';
import { Embedder } from '../../js/node.js';
import { launch } from './browsers.mjs';
import { cases as poolCases } from './pool/cases.mjs';
import { cases } from './threads/cases.mjs';
import {
  ADDON,
  DEFAULT_MODEL_PATH,
  ROOT,
  noAddon,
  noTool,
  onlyInAll,
  smallCalibratedModel,
  smallModel,
} from './support.mjs';

const WORKER = new URL('../../js/threads-worker-node.js', import.meta.url);
const KILLER = new URL('./threads/killer-node.mjs', import.meta.url);
const killed = { script: `${ROOT}js/threads-worker-node.js`, asked: 'embed' };
const FAULTY = new URL('./pool/faulty-threads-node.mjs', import.meta.url);
const PAGE = '/tests/js/page/blank.html';

/** Faults in which threads start or end. `make test` runs no others, which pool.test.mjs runs without threads. */
const THREAD_FAULTS = [
  'a worker exits at work',
  'a worker is terminated while it is idle',
  'one worker of several does not start: none stays',
  'a worker that stays with an aborted call is replaced',
  'destroy rejects, whatever a worker does; twice is fine',
];

smallCalibratedModel();

/** Threads of this process. */
const tasks = () => readdirSync('/proc/self/task').length;

/** Waits until there are no more threads than `most`, which nothing tells. */
async function untilThreads(/** @type {number} */ most) {
  for (let i = 0; i < 1000 && tasks() > most; i++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(tasks() <= most, `${most} threads became ${tasks()}`);
}

/** @param {object} options for every embedder */
const withOptions = (options) =>
  /** @type {typeof Embedder} */ (
    /** @type {unknown} */ ({
      load: (/** @type {any} */ model, /** @type {any} */ more) =>
        Embedder.load(model, typeof more === 'object' && more ? { ...options, ...more } : more),
    })
  );

/** The package with WebAssembly, whatever is installed. */
const wasm = withOptions({ backend: 'wasm' });
const native = withOptions({ addon: ADDON });

/** Runs `body` and returns how many texts each task had that was given to a worker. */
async function textsOfTasks(/** @type {() => Promise<unknown>} */ body) {
  const { postMessage } = Worker.prototype;
  /** @type {number[]} */
  const counts = [];
  Worker.prototype.postMessage = function (message, ...more) {
    if (message.type === 'embed') counts.push(message.texts.length);
    return postMessage.call(this, message, ...more);
  };
  try {
    await body();
  } finally {
    Worker.prototype.postMessage = postMessage;
  }
  return counts;
}

describe('Node', () => {
  test('after a single text tasks of bulk work are shorter, so that the next one waits less', async () => {
    const texts = Array.from({ length: 300 }, (_, i) => `${i} ${'word '.repeat(8)}`);
    const options = /** @type {const} */ ({ backend: 'wasm', threads: 2 });
    const embedder = await Embedder.load(smallModel(), options);
    const [first, ...others] = await textsOfTasks(() => embedder.embed(texts));
    await embedder.embed('a question');
    const later = await textsOfTasks(() => embedder.embed(texts));
    await embedder.close();
    assert.ok(others.length > 0 && first > 100, `${first} and ${others}`);
    assert.ok(Math.max(...later) <= Math.ceil(first / 4), `${later}`);
  });

  for (const [name, run] of Object.entries(cases)) {
    test(name, () =>
      run({
        Embedder: wasm,
        model: DEFAULT_MODEL_PATH,
        calibrated: smallCalibratedModel(),
        shared: true,
        makeWorker: () => new Worker(WORKER),
        makeKiller: () => new Worker(KILLER, { workerData: killed }),
        killWorker: (worker) => void worker.terminate(),
      }),
    );
  }

  test('a worker takes its threads with it', async () => {
    const embedder = await wasm.load(smallModel(), { threads: 3 });
    await embedder.embed('water finds its own way down');
    const most = tasks();
    for (let i = 0; i < 5; i++) {
      const other = await wasm.load(smallModel(), { threads: 3 });
      await other.embed('water finds its own way down');
      assert.ok(tasks() >= most + 3, 'no threads');
      await (i % 2 ? other.close() : other.destroy());
      await untilThreads(most);
    }
    await embedder.close();
  });

  test('a thread that cannot begin is an error of its worker, not of a promise, which a page would not hear of', async () => {
    const script = new URL('../../js/engine/threads.js', import.meta.url).href;
    const worker = new Worker(
      `const empty = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
      const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
      void import('${script}').then(({ orHelp }) =>
        orHelp(() => {})({ type: 'help', module: empty, memory, index: 1 }).catch(() => {}));`,
      { eval: true },
    );
    const error = await new Promise((resolve) => {
      worker.once('error', resolve).once('exit', () => resolve(undefined));
    });
    assert.match(String(error), /thread_stack/);
  });
});

describe('faults of workers with threads', { concurrency: 4 }, () => {
  /** @type {import('./pool/cases.mjs').Env} */
  let env;
  before(async () => {
    env = {
      Embedder: withOptions({ threads: 2, backend: 'wasm' }),
      model: await openAsBlob(smallModel()),
      calibrated: await openAsBlob(smallCalibratedModel()),
      makeWorker: (query = '') => new Worker(FAULTY, { argv: [query] }),
      killWorker: (worker) => void worker.terminate(),
      failMessage: (worker) => worker.emit('messageerror', new Error('of the test')),
      missingScript: new URL('./no-such-worker.mjs', import.meta.url).href,
    };
  });
  for (const [name, run] of Object.entries(poolCases)) {
    test(name, { skip: !THREAD_FAULTS.includes(name) && onlyInAll }, () => run(env));
  }
});

describe('the addon', { skip: noAddon }, () => {
  for (const name of Object.keys(cases).filter((each) => !/terminated|without a word/.test(each))) {
    test(name, () =>
      cases[name]({
        Embedder: native,
        model: DEFAULT_MODEL_PATH,
        calibrated: smallCalibratedModel(),
        shared: true,
        makeWorker() {},
        killWorker() {},
      }),
    );
  }
});

/** What differs in a page whose workers share no memory. */
const ABOUT_PLAIN_PAGES = /share no memory|^auto|calling thread/;

for (const browser of ['chromium', 'firefox']) {
  const inOneBrowser = browser === 'chromium' ? false : onlyInAll;
  describe(browser, { skip: inOneBrowser || noTool(browser) }, () => {
    /** @type {import('./browsers.mjs').Tab} */
    let tab;
    /** @type {Record<'plain' | 'isolated', Awaited<ReturnType<typeof serve>>>} */
    let servers;
    before(async () => {
      servers = { plain: await serve(), isolated: await serve({ isolated: true }) };
      tab = await launch[browser]();
    });
    after(async () => {
      await tab.close();
      await Promise.all(Object.values(servers).map((server) => server.close()));
    });
    for (const kind of /** @type {const} */ (['isolated', 'plain'])) {
      describe(`${kind} page`, () => {
        before(() => tab.open(servers[kind].origin + PAGE));
        for (const name of Object.keys(cases)) {
          const skip = kind === 'plain' && !ABOUT_PLAIN_PAGES.test(name) && onlyInAll;
          test(name, { skip }, () => tab.call('runThreadsCase', name));
        }
      });
    }
    describe('faults', { skip: onlyInAll }, () => {
      before(() => tab.open(servers.isolated.origin + PAGE));
      for (const name of THREAD_FAULTS) {
        assert.ok(name in poolCases);
        test(name, () => tab.call('runThreadsFault', name));
      }
    });
  });
}
