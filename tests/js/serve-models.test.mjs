// SPDX-License-Identifier: Apache-2.0
// wisp serve with several models: by name, opened when they are asked for, within a limit of memory.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { env, post, serve, skip } from './serve-program.mjs';
import { DEFAULT_MODEL_PATH, PROGRAM, ROOT, wisp } from './support.mjs';

/** @typedef {import('./serve-program.mjs').Server} Server */

const RANK = `${ROOT}tests/data/models/rank-bert`;
const ASKED = `${ROOT}tests/data/models/rank-qwen3`;
const STORIES = `${ROOT}models/wisp-stories.gguf`;
const STATIC = `${ROOT}tests/data/models/static`;

/** @param {Server} server @returns {Promise<{ id: string, loaded: boolean }[]>} */
const models = async (server) => (await (await fetch(`${server.url}/v1/models`)).json()).data;

/** The names of the models that are open. @param {Server} server */
const open = async (server) =>
  (await models(server)).filter(({ loaded }) => loaded).map(({ id }) => id);

/** @param {string} text @returns {number[]} */
const rowOf = (text) => JSON.parse(wisp(['embed', '--format', 'json', '--text', text]).out)[0];

/** @param {number[]} a @param {number[]} b */
const same = (a, b) => a.length === b.length && a.every((x, i) => Math.fround(x) === Math.fround(b[i])); // prettier-ignore

/** What a model takes in memory. */
async function bytesOfOne(model = DEFAULT_MODEL_PATH) {
  const server = await serve(['-m', model]);
  const { resident_bytes: bytes } = await (await fetch(`${server.url}/info`)).json();
  await server.stop();
  return bytes;
}

const HELD_TEXTS = 20000;

/** Uses a model until the result is called: asks for a reply that is too large for any buffer, and does not read it. @param {Server} server @param {string} model */
async function hold(server, model) {
  const body = JSON.stringify({ model, inputs: Array(HELD_TEXTS).fill('a b '.repeat(30)) });
  const socket = connect(server.port, '127.0.0.1');
  socket.write(
    `POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  const [head] = await once(socket, 'data');
  socket.pause();
  assert.match(head.toString('latin1'), /^HTTP\/1\.1 200 /);
  return () => socket.destroy();
}

/** Waits until a number of requests waits for models to close. @param {Server} server @param {number} count */
async function untilWaiting(server, count) {
  const found = new RegExp(`^wisp_models_waiting ${count}$`, 'm');
  let metrics;
  do metrics = await (await fetch(`${server.url}/metrics`)).text();
  while (!found.test(metrics));
}

const CROWD = { held: RANK, wanted: STORIES, small: STATIC };

/** Starts a server in which `wanted` has no room beside `held`, but `small` has. @param {number} most bytes @param {number} seconds */
const crowded = (most, seconds) =>
  serve(['-m', STATIC, '--name', 'first', '--models-memory', `${most}`, '--models-wait', `${seconds}`, '--most-texts', `${HELD_TEXTS}`,
    ...Object.entries(CROWD).flatMap(([name, path]) => ['--also', `${name}=${path}`])]); // prettier-ignore

/** @param {Server} server @param {string} model */
const askFor = (server, model) => post(server, '/tokenize', { model, inputs: 'a' });

describe('wisp serve with several models', { skip }, () => {
  /** @type {Server} */
  let server;
  before(async () => {
    const others = [
      '--also',
      `rank=${RANK}`,
      '--also',
      `org/stories=${STORIES}`,
      '--chat-format',
      'plain',
    ];
    server = await serve(['--name', 'first', ...others], { MALLOC_PERTURB_: '85' }); // so that no reply has more by luck
  });
  after(() => server?.stop());

  test('each is opened by the first request that names it, and does what it can', async () => {
    assert.deepEqual(
      (await models(server)).map(({ id }) => id),
      ['first', 'rank', 'org/stories'],
    );
    assert.deepEqual(await open(server), ['first']);
    const prompt = 'Once upon a time';
    const text = await post(server, '/v1/completions', { model: 'org/stories', prompt, max_tokens: 8, temperature: 0 }); // prettier-ignore
    const alone = wisp(['generate', '-m', STORIES, '--text', prompt, '-n', '8']).out;
    assert.equal(text.body.choices[0].text, alone.replace(/\n$/, ''));
    assert.equal(text.body.model, 'org/stories');
    const messages = [{ role: 'user', content: 'Hello' }];
    const chat = await post(server, '/v1/chat/completions', { model: 'org/stories', messages, max_tokens: 4 }); // prettier-ignore
    assert.equal(chat.status, 200, 'the format is that of every model without a template');
    assert.deepEqual(await open(server), ['first', 'org/stories']);
    const scores = await post(server, '/rerank', { model: 'rank', query: 'a', texts: ['b', 'c'] });
    assert.equal(scores.body.length, 2);
    const wrong = await post(server, '/v1/embeddings', { model: 'rank', input: 'a' });
    assert.match(wrong.body.error.message, /the model rank makes no embeddings/);
    for (const body of [{ input: 'a' }, { model: 'first', input: 'a' }]) {
      const embedded = await post(server, '/v1/embeddings', body);
      assert.equal(embedded.body.model, 'first');
      assert.ok(same(embedded.body.data[0].embedding, rowOf('a')));
    }
  });

  test('a name that no model has is 404, with the names', async () => {
    for (const path of ['/v1/embeddings', '/embed', '/v1/chat/completions']) {
      const { status, body } = await post(server, path, { model: 'gpt', input: 'a', inputs: 'a' });
      assert.equal(status, 404);
      assert.match(body.error.message, /no model gpt here: name one of first, rank, org\/stories$/);
    }
  });
});

test('a model that generates scores texts too', { skip }, async (t) => {
  const server = await serve(['-m', ASKED, '--name', 'asked', '--compute', 'f32']);
  t.after(server.stop);
  const golden = JSON.parse(readFileSync(`${ASKED}/golden.json`, 'utf8'));
  for (const { query, texts, scores } of golden) {
    const { body } = await post(server, '/rerank', { query, texts });
    for (const { index, score } of body) assert.ok(Math.abs(score - scores[index]) < 2e-5);
    assert.equal(body.length, texts.length);
  }
  const text = await post(server, '/v1/completions', { prompt: 'yes', max_tokens: 4 });
  assert.equal(text.status, 200);
  const none = await post(server, '/v1/embeddings', { input: 'yes' });
  assert.equal(none.status, 400);
});

test('models that have no room together take turns', { skip }, async (t) => {
  const other = (/** @type {string} */ name) => ['--also', `${name}=${DEFAULT_MODEL_PATH}`];
  const most = `${Math.floor(2.5 * (await bytesOfOne()))}`;
  const server = await serve(['--name', 'first', ...other('a'), ...other('b'), '--models-memory', most]); // prettier-ignore
  t.after(server.stop);
  const texts = ['cats', 'the bank'];
  const rows = texts.map(rowOf);
  const replies = await Promise.all(
    Array.from({ length: 24 }, async (_, i) => {
      const model = ['a', 'b', 'first'][i % 3];
      const { status, body } = await post(server, '/v1/embeddings', { model, input: texts[i % 2] });
      assert.ok((await open(server)).length <= 2);
      return status === 200 && body.model === model && same(body.data[0].embedding, rows[i % 2]);
    }),
  );
  assert.ok(replies.every(Boolean));
  for (const model of ['a', 'b', 'a']) {
    await post(server, '/embed', { model, inputs: 'x' });
    assert.deepEqual(await open(server), ['first', model]);
  }
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  assert.match(metrics, /^wisp_models_open 2$/m);
  assert.match(metrics, /^wisp_texts_total 27$/m); // those of models that were closed, too
  assert.equal(await server.stop(), 0);
});

describe('a model that has to close for another, and is in use', { skip }, () => {
  /** What `first` and `wanted` take. @type {number} */
  let both;
  /** @type {number} */
  let held;
  before(async () => {
    both = (await bytesOfOne(STATIC)) + (await bytesOfOne(STORIES));
    held = await bytesOfOne(RANK);
  });

  // If there are spare bytes, `wanted` seems to have room by the size of its file, until it is open.
  for (const spare of ['no', 'some']) {
    test(`requests for others do not wait for it: ${spare} spare bytes`, async (t) => {
      const server = await crowded(both + (spare === 'no' ? 0 : held - 1), 86400);
      let release = () => {};
      t.after(() => (release(), server.stop()));
      release = await hold(server, 'held');
      const wanted = askFor(server, 'wanted');
      await untilWaiting(server, 1);
      assert.equal((await askFor(server, 'small')).status, 200);
      assert.deepEqual(await open(server), ['first', 'held', 'small']);
      const again = askFor(server, 'held'); // its turn comes after that of `wanted`
      await untilWaiting(server, 2);
      release();
      assert.equal((await wanted).status, 200);
      assert.equal((await again).status, 200);
      await untilWaiting(server, 0);
      assert.equal(await server.stop(), 0);
    });
  }

  for (const seconds of [0, 1]) {
    test(`is named by a refusal after ${seconds} s, and goes on`, async (t) => {
      const server = await crowded(both, seconds);
      let release = () => {};
      t.after(() => (release(), server.stop()));
      release = await hold(server, 'held');
      const { status, headers, body } = await askFor(server, 'wanted');
      assert.equal(status, 503);
      assert.equal(headers.get('Retry-After'), '1');
      const why = `the model held has to close for another, and its requests did not end within ${seconds} s`;
      assert.equal(body.error.message, `the model wanted cannot be opened: ${why}`);
      assert.equal((await askFor(server, 'held')).status, 200);
      release();
      let reply;
      do reply = await askFor(server, 'wanted');
      while (reply.status === 503);
      assert.equal(reply.status, 200);
      assert.deepEqual(await open(server), ['first', 'wanted']);
    });
  }
});

test('a model that cannot be opened', { skip }, async (t) => {
  const most = `${Math.floor(1.5 * (await bytesOfOne()))}`;
  const server = await serve(['--also', 'gone=no/such.gguf', '--also', `large=${DEFAULT_MODEL_PATH}`, '--models-memory', most]); // prettier-ignore
  t.after(server.stop);
  const gone = await post(server, '/embed', { model: 'gone', inputs: 'a' });
  assert.equal(gone.status, 500);
  assert.match(gone.body.error.message, /^the model gone cannot be opened: /);
  assert.ok(!gone.body.error.message.includes('such.gguf'));
  const large = await post(server, '/embed', { model: 'large', inputs: 'a' });
  assert.equal(large.status, 503);
  assert.match(large.body.error.message, /it takes \d+ bytes, and all models may take \d+/);
  assert.equal(large.headers.get('Retry-After'), null); // it will have no room later either
  assert.equal((await post(server, '/embed', { inputs: 'a' })).status, 200);
  await server.stop();
  assert.match(server.log(), /no\/such\.gguf/);
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [['--also', 'a'], /--also a: expected NAME=PATH/],
    [['--also', '=a'], /expected NAME=PATH/],
    [['--models-memory', '1M'], /models-memory: the first model takes \d+ bytes/],
    [['--name', 'x', '--also', 'x=a'], /--also x: two models have this name/],
    [['--also', 'x=a', '--also', 'x=b'], /two models have this name/],
  ])) {
    const { status, stderr } = spawnSync(PROGRAM, ['serve', '-m', DEFAULT_MODEL_PATH, ...args], { env, encoding: 'utf8' }); // prettier-ignore
    assert.equal(status, 2);
    assert.match(stderr, message);
  }
});
