// SPDX-License-Identifier: Apache-2.0
// Options of wisp serve, how it ends, and what it does with the prompts and vocabularies of other models.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { env, post, serve, skip, untilQueued } from './serve-program.mjs';
import { DEFAULT_MODEL_PATH, PROGRAM, ROOT, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-serve-'));
after(() => rmSync(folder, { recursive: true }));

describe('options of wisp serve', { skip }, () => {
  test('a key is asked for', async () => {
    const file = join(folder, 'key');
    writeFileSync(file, 'secret\n');
    const server = await serve(['--api-key-file', file, '--log'], { WISP_API_KEY: 'not this one' });
    const status = async (/** @type {Record<string, string>} */ headers) =>
      (await post(server, '/embed', { inputs: 'a' }, headers)).status;
    assert.equal(await status({}), 401);
    assert.equal(await status({ authorization: 'Bearer secre' }), 401);
    assert.equal(await status({ authorization: 'Bearer not this one' }), 401);
    assert.equal(await status({ authorization: 'Bearer secret' }), 200);
    assert.equal(await status({ 'x-api-key': 'secret' }), 200);
    assert.equal((await fetch(`${server.url}/health`)).status, 200);
    assert.equal(await server.stop(), 0);
    const lines = server.log().split('\n').filter((line) => line.startsWith('{')); // prettier-ignore
    assert.equal(lines.length, 6);
    assert.deepEqual(Object.keys(JSON.parse(lines[3])), [
      'method',
      'path',
      'status',
      'bytes',
      'seconds',
    ]);
    assert.ok(!server.log().includes('secret'));
  });

  test('a full queue refuses, and says when to try again', async () => {
    const server = await serve(['--queue', '10', '--batch-tokens', '64']);
    const long = post(server, '/embed', {
      inputs: Array(1500).fill('a longer text of some words'),
    });
    await untilQueued(server);
    const refused = await post(server, '/embed', { inputs: Array(11).fill('b') });
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get('retry-after'), '1');
    assert.equal((await long).status, 200);
    assert.equal(await server.stop(), 0);
  });

  test('a request under way has its reply when the server ends', async () => {
    const server = await serve();
    const long = post(server, '/embed', {
      inputs: Array(1500).fill('a longer text of some words'),
    });
    await untilQueued(server);
    const ended = server.stop();
    assert.equal((await long).body.length, 1500);
    assert.equal(await ended, 0);
  });

  test('a text of more tokens than bytes has all of them', async () => {
    const model = join(folder, 'normalised');
    const tokenizer = join(model, 'tokenizer.json');
    cpSync(`${ROOT}tests/data/models/qwen3-embedding`, model, { recursive: true });
    const settings = JSON.parse(readFileSync(tokenizer, 'utf8'));
    writeFileSync(tokenizer, JSON.stringify({ ...settings, normalizer: { type: 'NFC' } }));
    const text = '\u{1d160}'.repeat(8); // of 4 bytes, and its normal form of 12
    const server = await serve(['-m', model]);
    const { body } = await post(server, '/tokenize', { inputs: text });
    await server.stop();
    const ids = JSON.parse(wisp(['tokenize', '-m', model, '--text', text]).out);
    assert.ok(ids.length > Buffer.byteLength(text) + 16);
    assert.deepEqual(
      body[0].map((/** @type {{ id: number }} */ token) => token.id),
      ids,
    );
  });

  test('a port that is taken, and wrong options', async () => {
    const server = await serve();
    const taken = spawnSync(PROGRAM, ['serve', '-m', DEFAULT_MODEL_PATH, '--port', `${server.port}`], { env, encoding: 'utf8' }); // prettier-ignore
    assert.equal(taken.status, 1);
    assert.match(taken.stderr, /cannot listen on 127\.0\.0\.1:\d+/);
    await server.stop();
    assert.equal(wisp(['serve', 'model.gguf']).code, 2);
    assert.equal(wisp(['serve', '--port', 'x']).code, 2);
    assert.match(wisp(['serve', '--help']).out, /--api-key-file/);
  });
});

test('a text with its prompt must have room', { skip }, async (t) => {
  const server = await serve(['-m', `${ROOT}tests/data/models/prompted`]);
  t.after(server.stop);
  const count = async (/** @type {string} */ text) => (await post(server, '/tokenize', { inputs: text })).body[0].length; // prettier-ignore
  let text = 'a';
  while ((await count(`${text} a`)) < 32) text += ' a';
  for (const [more, status] of /** @type {[object, number][]} */ ([
    [{ prompt_name: 'document' }, 200],
    [{}, 413], // the default prompt is that of queries
    [{ prompt_name: 'passage' }, 413],
    [{ prompt_name: 'passage', truncate: true }, 200],
  ]))
    assert.equal((await post(server, '/embed', { inputs: text, ...more })).status, status);
});
