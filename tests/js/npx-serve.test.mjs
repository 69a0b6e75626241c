// SPDX-License-Identifier: Apache-2.0
// wisp-engine serve: the rows of the program over HTTP, as wisp serve has them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { installNative } from './package-run.mjs';
import { ask, post, started } from './serve-program.mjs';
import { ROOT, floatsOf, noAddon, wisp } from './support.mjs';

/** @typedef {import('./serve-program.mjs').Server} Server */

const CLI = `${ROOT}js/cli.js`;
const TEXTS = ['cats are nice', 'Ein Satz mit „Zeichen“ 😀', ''];
const folder = mkdtempSync(join(tmpdir(), 'wisp-npx-serve-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {Record<string, string>} env */
const serve = (args = [], env = {}) =>
  started(process.execPath, [CLI, 'serve', '--port', '0', '-t', '1', '--portable', ...args], { ...process.env, ...env }); // prettier-ignore

describe('wisp-engine serve', () => {
  /** @type {Server} */
  let server;
  before(async () => (server = await serve()));
  after(() => server?.stop());

  test('gives the rows of the program', async () => {
    const lines = TEXTS.map((text) => JSON.stringify(text)).join('\n');
    const program = (/** @type {string[]} */ ...args) => [
      ...floatsOf(wisp(['embed', '--portable', '--input', 'ndjson', '--format', 'f32', ...args], lines).bytes), // prettier-ignore
    ];
    const whole = await post(server, '/v1/embeddings', { model: 'any', input: TEXTS });
    assert.equal(whole.status, 200);
    const rows = whole.body.data.flatMap((/** @type {any} */ row) => row.embedding);
    assert.deepEqual([...Float32Array.from(rows)], program());
    const tokens = TEXTS.map((text) => JSON.parse(wisp(['tokenize', '--text', text]).out).length);
    assert.equal(
      whole.body.usage.total_tokens,
      tokens.reduce((sum, n) => sum + n),
    );
    const base64 = await post(server, '/v1/embeddings', { input: TEXTS, encoding_format: 'base64', dimensions: 32 }); // prettier-ignore
    const short = base64.body.data.flatMap((/** @type {any} */ row) => [
      ...floatsOf(Buffer.from(row.embedding, 'base64')),
    ]);
    assert.deepEqual(short, program('--dimensions', '32'));
    const models = await (await fetch(`${server.url}/v1/models`)).json();
    assert.equal(models.data[0].id, whole.body.model);
    assert.deepEqual(await (await fetch(`${server.url}/health`)).json(), { status: 'ok' });
  });

  test('says what is wrong with a request', async () => {
    for (const [
      path,
      body,
      status,
      message,
    ] of /** @type {[string, unknown, number, RegExp][]} */ ([
      ['/v1/embeddings', '{"input"', 400, /request: /],
      ['/v1/embeddings', '[1]', 400, /must be a JSON object/],
      ['/v1/embeddings', {}, 400, /input: is missing or empty/],
      ['/v1/embeddings', { input: [[1]] }, 400, /input: must be a string or a list of strings/],
      ['/v1/embeddings', { input: ['a', 'b\ud800'] }, 400, /input: has a lone surrogate/],
      ['/v1/embeddings', { input: 'a', dimensions: 385 }, 400, /dimensions: .* from 1 to 384/],
      ['/v1/embeddings', { input: 'a', encoding_format: 'hex' }, 400, /encoding_format/],
      ['/v1/embeddings', { input: Array(2049).fill('a') }, 413, /2048/],
      [
        '/v1/embeddings',
        { input: ['a', 'b '.repeat(300)] },
        413,
        /text 1 has 302 tokens, and the model takes 256/,
      ],
      ['/v1/embeddings', { input: 'a', truncate: 1 }, 400, /truncate: must be true or false/],
      ['/v1/embeddings', { input: 'x'.repeat(32e6) }, 413, /larger than this server takes/],
      ['/v1/chat/completions', {}, 404, /there is no/],
      ['/health', {}, 405, /does not take POST/],
    ])) {
      const reply = await post(server, path, body);
      assert.equal(reply.status, status, JSON.stringify(reply.body));
      assert.match(reply.body.error.message, message);
    }
    const latin = await fetch(`${server.url}/v1/embeddings`, { method: 'POST', body: Buffer.from('{"input":"\xff"}', 'latin1') }); // prettier-ignore
    assert.equal(latin.status, 400);
    const cut = await post(server, '/v1/embeddings', { input: 'b '.repeat(300), truncate: true });
    assert.equal(cut.body.usage.total_tokens, 256);
    const nulls = await post(server, '/v1/embeddings', { input: 'a', dimensions: null, encoding_format: null }); // prettier-ignore
    assert.equal(nulls.status, 200);
    const head = (/** @type {string} */ lines) => ask(server, `GET /health HTTP/1.1\r\nConnection: close\r\n${lines}\r\n`); // prettier-ignore
    assert.equal((await head('Host: evil.example\r\n')).status, 403);
    assert.equal((await head('Host: localhost\r\nOrigin: https://evil.example\r\n')).status, 403);
    const page = await head('Host: localhost\r\nOrigin: http://localhost:3000\r\n');
    assert.deepEqual([page.status, page.allowed], [200, 'http://localhost:3000']);
  });
});

test("a model's default prompt counts, as in wisp serve", async (t) => {
  const model = `${ROOT}tests/data/models/prompted`; // its prompt is 'query: '
  const gguf = join(folder, 'prompted.gguf');
  assert.equal(wisp(['convert', model, gguf, '--type', 'f32']).code, 0);
  const server = await serve(['-m', gguf]);
  t.after(server.stop);
  const count = (/** @type {string} */ text) =>
    JSON.parse(wisp(['tokenize', '-m', model, '--text', text]).out).length;
  const { body } = await post(server, '/v1/embeddings', { input: TEXTS });
  assert.equal(body.usage.total_tokens, TEXTS.reduce((sum, text) => sum + count(`query: ${text}`), 0)); // prettier-ignore
  assert.ok(count('query: a') > count('a'));
});

test('a vector cache is shared with the program', { skip: noAddon }, async (t) => {
  const cache = ['--vector-cache', join(folder, 'cache')];
  const packages = join(folder, 'packages');
  installNative(packages, { hasProgram: false });
  const server = await serve(cache, { NODE_PATH: packages });
  t.after(server.stop);
  await post(server, '/v1/embeddings', { input: TEXTS });
  const args = ['embed', '--portable', '--stats', ...cache, '--input', 'ndjson'];
  const { err } = wisp(args, TEXTS.map((text) => JSON.stringify(text)).join('\n'));
  assert.match(err, /vector cache: 3 texts found, 0 computed/);
});

test('a full queue refuses; a request under way has its reply when the server ends', async (t) => {
  const server = await serve(['--queue', '10']);
  t.after(server.stop);
  const long = post(server, '/v1/embeddings', { input: Array(150).fill('a longer text of words') });
  let refused;
  do refused = await post(server, '/v1/embeddings', { input: 'b' });
  while (refused.status === 200); // until the long request is there
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get('retry-after'), '1');
  const ended = server.stop();
  assert.equal((await long).body.data.length, 150);
  assert.equal(await ended, 0);
});

test('a server at any address of this machine answers requests to it only', async (t) => {
  const server = await serve(['--address', '127.0.0.2']);
  t.after(server.stop);
  const status = (/** @type {string} */ host) =>
    new Promise((resolve, reject) => {
      const url = `http://127.0.0.2:${server.port}/health`;
      get(url, { headers: { host }, agent: false }, (reply) => resolve(reply.resume().statusCode)).on('error', reject); // prettier-ignore
    });
  assert.equal(await status('evil.example'), 403);
  assert.equal(await status('127.0.0.2'), 200);
});

test('wrong options', () => {
  const file = join(folder, 'no-key');
  writeFileSync(file, 'schl\u00fcssel\u0001\n');
  for (const [args, status, message] of /** @type {[string[], number, RegExp][]} */ ([
    [['--port', 'x'], 2, /--port x/],
    [['--vector-cache-size', '1M'], 2, /--vector-cache-size requires --vector-cache/],
    [['--upstream', 'example.com'], 2, /expected a URL/],
    [['--upstream', 'http://[::1'], 2, /expected a URL/],
    [['--upstream', 'http://user:word@example.com'], 2, /a URL without a user/],
    [['--upstream', 'http://example.com?a=b'], 2, /a URL without a user, a query/],
    [['--upstream-key-file', file], 2, /--upstream-key-file: the key.*printable/],
    [['--api-key-file', join(folder, 'none')], 2, /--api-key-file/],
    [['a.gguf'], 2, /takes no arguments/],
    [['-m', 'no/such.gguf'], 3, /such\.gguf/],
  ])) {
    const done = spawnSync(process.execPath, [CLI, 'serve', ...args], { encoding: 'utf8' });
    assert.equal(done.status, status, done.stderr);
    assert.match(done.stderr, message);
  }
});
