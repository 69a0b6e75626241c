// SPDX-License-Identifier: Apache-2.0
// Transfers of models by name that break off, stop or are made by several processes at once, in Node.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listCached } from '../../js/hub-node.js';
import {
  FOLDER,
  HASH,
  blobs,
  cacheDir,
  fail,
  get,
  home,
  hub,
  model,
  node,
  run,
} from './hub-home.mjs';
import { breakingOff } from './hub-server.mjs';
import { ROOT } from './support.mjs';

test('several processes at once load a model once each at most, and leave nothing behind', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  const env = { HF_ENDPOINT: hub.origin, HF_HOME: home };
  const script =
    "import { fromHub } from './js/hub-node.js';\n" +
    "console.log((await Promise.all([1, 2, 3].map(() => fromHub('o/m')))).join('\\n'))";
  const outputs = await Promise.all([1, 2, 3].map(() => node(env, script)));
  const paths = new Set(outputs.flatMap((text) => text.trim().split('\n')));
  assert.equal(paths.size, 1);
  assert.deepEqual(blobs(), [HASH]);
  assert.ok(readFileSync([...paths][0]).equals(model));
});

/**
 * Lets answers of a model's bytes end when some of them have come. Returns the onProgress that ends them: what
 * has not been read when a connection ends may be lost.
 * @param {number} bytes
 */
const breakOff = (bytes) => {
  /** @type {{ response: import('./hub-server.mjs').Response, end: number }} */
  let open;
  hub.fault = (request, response, next) => {
    if (!request.url?.startsWith('/blobs/')) return next();
    const range = request.headers.range;
    const from = Number(/\d+/.exec(range ?? '')?.[0] ?? 0);
    if (from + bytes >= model.length) return next();
    response.writeHead(range ? 206 : 200, {
      'Content-Length': model.length - from,
      ...(range && { 'Content-Range': `bytes ${from}-${model.length - 1}/${model.length}` }),
    });
    response.write(model.subarray(from, from + bytes));
    open = { response, end: from + bytes };
  };
  return (/** @type {{ loaded: number }} */ { loaded }) =>
    void (loaded === open.end && open.response.destroy());
};

/**
 * Lets the answer of a model's bytes stop after some of them, and stay open.
 * @param {number} bytes
 */
const stall = (bytes) => {
  hub.fault = (request, response, next) => {
    if (!request.url?.startsWith('/blobs/')) return next();
    response.writeHead(200, { 'Content-Length': model.length }).write(model.subarray(0, bytes));
  };
};

test('a transfer that breaks off goes on where it was', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  const path = await get('o/m', { onProgress: breakOff(50_000) });
  assert.ok(readFileSync(path).equals(model));
  const ranges = hub.asked.filter((line) => line.startsWith('GET /blobs/'));
  assert.ok(ranges.length >= 3, ranges.join('\n'));
  assert.match(ranges[1], / bytes=\d+-$/);
});

test('a transfer that never goes on is named', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  hub.fault = breakingOff(model.length);
  const error = await fail('o/m');
  assert.equal(error.code, 'io', error.stack);
  assert.match(error.message, /cannot reach|the transfer ends after 0 of \d+ bytes/);
});

test('an aborted one is continued by the next call, even by that of another process', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  stall(70_000);
  const stop = new AbortController();
  const error = await fail('o/m', {
    signal: stop.signal,
    onProgress: ({ loaded }) => loaded === 70_000 && stop.abort(),
  });
  hub.fault = undefined;
  assert.equal(error.code, 'cancelled');
  assert.equal(error.name, 'AbortError');
  const [partial] = blobs();
  assert.match(partial, new RegExp(`^${HASH}\\.wisp-\\d+-\\d+\\.incomplete$`));
  const { size } = statSync(join(cacheDir, FOLDER, 'blobs', partial));
  hub.forget();
  const out = await node(
    { HF_ENDPOINT: hub.origin, HF_HOME: home },
    "import { fromHub } from './js/hub-node.js'; console.log(await fromHub('o/m'))",
  );
  assert.ok(readFileSync(out.trim()).equals(model));
  assert.ok(hub.asked.includes(`GET /blobs/${HASH} bytes=${size}-`), hub.asked.join('\n'));
  assert.deepEqual(blobs(), [HASH]);
});

test('what onProgress throws ends the load, unchanged', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  const mine = new TypeError('mine');
  const onProgress = () => {
    throw mine;
  };
  assert.equal(await fail('o/m', { onProgress }), mine);
  assert.equal(hub.asked.filter((line) => line.startsWith('GET /blobs/')).length, 1);
  assert.ok(readFileSync(await get('o/m')).equals(model));
});

test('what a killed process left is taken over; what is wrong in it is found by its hash', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  mkdirSync(join(cacheDir, FOLDER, 'blobs'), { recursive: true });
  const left = join(cacheDir, FOLDER, 'blobs', `${HASH}.wisp-4194999-1.incomplete`); // above every pid
  const bad = Buffer.from(model.subarray(0, 70_000));
  bad[60_000] ^= 1;
  writeFileSync(left, bad);
  const error = await fail('o/m');
  assert.equal(error.code, 'format');
  assert.match(error.message, /SHA-256.*load it again/);
  assert.deepEqual(blobs(), []);
  writeFileSync(left, model.subarray(0, 70_000));
  assert.ok(readFileSync(await get('o/m')).equals(model));
  // A writer that is alive is waited for until it writes no more.
  rmSync(join(cacheDir, FOLDER), { recursive: true });
  mkdirSync(join(cacheDir, FOLDER, 'blobs'), { recursive: true });
  const theirs = join(cacheDir, FOLDER, 'blobs', `${HASH}.wisp-${process.ppid}-1.incomplete`);
  writeFileSync(theirs, model.subarray(0, 10));
  utimesSync(theirs, Date.now() / 1000 + 8, Date.now() / 1000 + 8);
  hub.forget();
  let isDone = false;
  const waiting = get('o/m').finally(() => (isDone = true));
  while (!hub.asked.some((line) => line.startsWith('HEAD'))) await new Promise(setImmediate);
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(isDone, false);
  utimesSync(theirs, 0, 0);
  assert.ok(readFileSync(await waiting).equals(model));
  assert.ok(hub.asked.includes(`GET /blobs/${HASH} bytes=10-`));
});

test('a killed process harms nothing, and what it had is not fetched again', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  stall(65_536);
  const script = "import { fromHub } from './js/hub-node.js'; await fromHub('o/m')";
  const env = { ...process.env, HF_ENDPOINT: hub.origin, HF_HOME: home, HF_TOKEN: '' };
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    cwd: ROOT,
    env,
  });
  const size = () => {
    const folder = join(cacheDir, FOLDER, 'blobs');
    return existsSync(folder) && blobs()[0] ? statSync(join(folder, blobs()[0])).size : 0;
  };
  while (size() < 65_536) {
    assert.equal(child.exitCode, null);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  child.kill('SIGKILL');
  await once(child, 'exit');
  hub.fault = undefined;
  hub.forget();
  assert.ok(readFileSync(await get('o/m')).equals(model));
  assert.ok(hub.asked.includes(`GET /blobs/${HASH} bytes=65536-`), hub.asked.join('\n'));
  assert.deepEqual(blobs(), [HASH]);
});

test('a server without ranges sends all again', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  mkdirSync(join(cacheDir, FOLDER, 'blobs'), { recursive: true });
  const left = join(cacheDir, FOLDER, 'blobs', `${HASH}.wisp-4194999-1.incomplete`);
  writeFileSync(left, model.subarray(0, 5000));
  hub.fault = (request, response, next) => {
    if (!request.url?.startsWith('/blobs/')) return next();
    response.writeHead(200, { 'Content-Length': model.length }).end(model);
  };
  assert.ok(readFileSync(await get('o/m')).equals(model));
});

test('a disk that fills up with the last bytes is an error, and leaves no model', async () => {
  hub.commit('o/m', { 'm.gguf': model });
  // The system then writes a part of the last bytes, and says so by their number alone.
  const most = Math.floor((model.length - 1) / 1024);
  const script = `
    import { fromHub } from './js/hub-node.js';
    await fromHub('o/m', ${JSON.stringify({ endpoint: hub.origin, cacheDir, token: '' })}).then(
      () => console.log('good'),
      ({ code, message }) => console.log(code, message),
    );`;
  const limited = `trap '' XFSZ; ulimit -f ${most}; exec "$0" --input-type=module -e "$1"`;
  const { stdout } = await run('bash', ['-c', limited, process.execPath, script], { cwd: ROOT });
  assert.match(stdout, /^io the cache .*EFBIG/);
  assert.deepEqual(await listCached({ cacheDir }), []);
});
