// SPDX-License-Identifier: Apache-2.0
// Downloads of models that wisp does not compute end before their weights come.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folderFromHub } from '../../js/hub/hub-node.js';
import {
  ARCHITECTURES,
  MODEL_TYPES,
  architectureOf,
  checkArchitecture,
} from '../../js/hub/hub-architecture.js';
import { blobs, cacheDir, fail, get, home, hub, model, run } from './hub-home.mjs';
import { PROGRAM } from './support.mjs';

/**
 * The first bytes of a GGUF file, with one key.
 * @param {string} key
 * @param {string} value
 */
function headerOf(key, value) {
  const texts = [key, value].map((text) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    return Buffer.concat([length, Buffer.from(text)]);
  });
  const counts = Buffer.alloc(20);
  counts.writeUInt32LE(3);
  counts.writeBigUInt64LE(1n, 12);
  const type = Buffer.from([8, 0, 0, 0]);
  return Buffer.concat([Buffer.from('GGUF'), counts, texts[0], type, texts[1]]);
}

test('a GGUF file of another architecture is refused by its first bytes', async () => {
  const whole = Buffer.concat([
    headerOf('general.architecture', 'nonesuch'),
    Buffer.alloc(1 << 20),
  ]);
  hub.commit('o/m', { 'm.gguf': whole });
  hub.fault = (request, response, next) => {
    if (!request.url?.startsWith('/blobs/')) return next();
    response.writeHead(200, { 'Content-Length': whole.length });
    response.write(whole.subarray(0, 100)); // and no more: whoever waits for the rest waits for ever
  };
  const error = await fail('o/m');
  assert.equal(error.code, 'unsupported');
  assert.match(error.message, /m\.gguf: models of architecture nonesuch are not supported/);
  assert.deepEqual(blobs(), []);
});

test('a folder of a model of another type is refused by its config.json, and its weights do not come', async () => {
  const config = JSON.stringify({ model_type: 'nonesuch' });
  hub.commit('o/m', { 'config.json': config, 'model.safetensors': Buffer.alloc(5000) });
  const options = { endpoint: hub.origin, cacheDir, token: '' };
  const error = await folderFromHub('o/m', options).then(assert.fail, (reason) => reason);
  assert.equal(error.code, 'unsupported');
  assert.match(error.message, /config\.json: models of type nonesuch are not supported/);
  assert.deepEqual(
    hub.asked.filter((line) => line.includes('safetensors')),
    [],
  );
});

test('files that say nothing of it in their first bytes come whole, and are refused when they open', async () => {
  assert.equal(architectureOf(model), 'bert');
  for (const bytes of [
    headerOf('general.architecturf', 'nonesuch'),
    headerOf('general.architecture', 'nonesuch').subarray(0, 60),
    headerOf('general.architecture', 'x').fill(255, 24, 32),
    Buffer.from('GGUF'),
    Buffer.from('{"a":1}'),
  ])
    checkArchitecture(bytes, 'url');
  hub.commit('o/m', { 'm.gguf': model });
  await get('o/m');
});

test('the lists are those of the program', async () => {
  const listOf = async (/** @type {string} */ path) => {
    const error = await run(PROGRAM, ['embed', '--text', 'a', '-m', path]).then(
      () => assert.fail('it opens'),
      (reason) => reason,
    );
    const { 1: list } = /not supported, only (.*)/.exec(error.stderr) ?? [];
    return list?.split(/, | and /);
  };
  const file = join(home, 'm.gguf');
  writeFileSync(
    file,
    Buffer.concat([headerOf('general.architecture', 'nonesuch'), Buffer.alloc(64)]),
  );
  assert.deepEqual([...ARCHITECTURES].sort(), (await listOf(file))?.sort());
  mkdirSync(join(home, 'folder'));
  writeFileSync(join(home, 'folder', 'config.json'), JSON.stringify({ model_type: 'nonesuch' }));
  // The program does not list types whose names begin with the one before.
  const others = ['model2vec', 'lfm2_bidirectional', 'clip_text_model', 'siglip_text_model'];
  assert.deepEqual(
    [...MODEL_TYPES].sort(),
    [...((await listOf(join(home, 'folder'))) ?? []), ...others].sort(),
  );
});
