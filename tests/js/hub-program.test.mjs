// SPDX-License-Identifier: Apache-2.0
// Models by name in the program wisp, in the cache that JavaScript uses too: what one has fetched the other finds.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { deleteCached, listCached } from '../../js/hub-node.js';
import { folderFromHub } from '../../js/hub/hub-node.js';
import { makeCertificate } from './certificate.mjs';
import { filesOf } from './convert/folders.mjs';
import { FOLDER, HASH, blobs, cacheDir, get, home, hub, model } from './hub-home.mjs';
import { begin, noCurl } from './remote/program.mjs';
import { ROOT, smallModel, wisp } from './support.mjs';

const TOKEN = 'hf_secretOfATest';
const TINY = `${ROOT}tests/data/models/cls12`;

/** @param {string[]} args @param {Record<string, string>} [env] */
const start = (args, env = {}) =>
  begin(join(home, 'wisp'), args, {
    ...{ HF_ENDPOINT: hub.origin, HF_HOME: home, HF_TOKEN: '' },
    ...env,
  });

/** @param {string[]} args @param {Record<string, string>} [env] */
async function run(args, env) {
  const { child, ended } = start(args, env);
  child.stdin.end();
  const { code, rows, err } = await ended;
  return { code, out: String(rows), err };
}

/** @param {string[]} args @param {Record<string, string>} [env] */
async function good(args, env) {
  const { code, out, err } = await run(args, env);
  assert.equal(code, 0, err);
  return out.trim();
}

/** Puts a link in the place of a folder. @param {string} folder @param {string} target */
function linkInstead(folder, target) {
  rmSync(folder, { recursive: true });
  symlinkSync(target, folder);
}

/** What is asked for but the state of files. */
const fetched = () => hub.asked.filter((line) => line.includes('/blobs/'));

describe('the program', { skip: noCurl }, () => {
  test('pulls what JavaScript finds, and finds what that has fetched', async () => {
    const commit = hub.commit('o/m', { 'README.md': 'x', 'sub/m-q8_0.gguf': model, 'm-f16.gguf': model }); // prettier-ignore
    const path = await good(['pull', 'hf:o/m']);
    assert.equal(path, join(cacheDir, FOLDER, 'snapshots', commit, 'sub/m-q8_0.gguf'));
    assert.equal(readlinkSync(path), `../../../blobs/${HASH}`);
    assert.equal(readFileSync(join(cacheDir, FOLDER, 'refs/main'), 'utf8'), commit);
    assert.deepEqual(blobs(), [HASH]);
    assert.ok(readFileSync(path).equals(model));
    assert.deepEqual(hub.asked, [
      'GET /api/models/o/m/revision/main',
      'HEAD /o/m/resolve/main/sub/m-q8_0.gguf',
      `GET /o/m/resolve/${commit}/sub/m-q8_0.gguf`,
      `GET /blobs/${HASH}`,
    ]);
    hub.forget();
    assert.equal(await get('o/m'), path);
    assert.deepEqual(fetched(), []);
    // The other way round, with a revision and a file.
    rmSync(cacheDir, { recursive: true });
    const there = await get('o/m@main/sub/m-q8_0.gguf');
    hub.forget();
    assert.equal(await good(['pull', 'hf:o/m/sub/m-q8_0.gguf']), there);
    assert.deepEqual(hub.asked, ['HEAD /o/m/resolve/main/sub/m-q8_0.gguf']);
    hub.forget();
    assert.equal(await good(['pull', `hf:o/m@${commit}/sub/m-q8_0.gguf`]), there);
    assert.deepEqual(hub.asked, []);
    assert.equal(await good(['pull', 'hf:o/m'], { HF_HUB_OFFLINE: 'yes' }), there);
    assert.deepEqual(hub.asked, []);
  });

  test('a folder, which JavaScript converts, and the program opens as it is', async () => {
    const files = { 'README.md': 'no', ...filesOf(TINY) };
    const commit = hub.commit('o/m', files);
    const path = await good(['pull', 'hf:o/m']);
    assert.equal(path, join(cacheDir, FOLDER, 'snapshots', commit));
    const names = readdirSync(path, { recursive: true }).map(String);
    assert.deepEqual(
      names.filter((name) => statSync(join(path, name)).isFile()).sort(),
      Object.keys(filesOf(TINY)).sort(),
    );
    hub.forget();
    const options = { endpoint: hub.origin, cacheDir, token: '' };
    assert.equal((await folderFromHub('o/m', options)).replace(/\/$/, ''), path);
    const embed = ['embed', '--text', 'some text', '-m'];
    assert.equal(await good([...embed, 'hf:o/m']), wisp([...embed, TINY]).out.trim());
    assert.deepEqual(fetched(), []);
    // From a repository with both, convert takes the folder, and other commands the GGUF file.
    const both = hub.commit('o/both', { ...files, 'm.gguf': model });
    const folder = join(cacheDir, 'models--o--both/snapshots', both);
    const output = join(home, 'out.gguf');
    await good(['convert', 'hf:o/both', output]);
    wisp(['convert', '--name', 'both', TINY, join(home, 'expected.gguf')]);
    assert.ok(readFileSync(output).equals(readFileSync(join(home, 'expected.gguf'))));
    assert.equal(await good(['pull', '--folder', 'hf:o/both']), folder);
    assert.equal(await good(['pull', 'hf:o/both']), join(folder, 'm.gguf'));
    const described = JSON.parse(await good(['inspect', '--format', 'json', 'hf:o/both']));
    assert.equal(described.files[0].bytes, model.length);
  });

  test('chooses files as JavaScript does', async () => {
    const gguf = (/** @type {string[]} */ ...names) => names.map((name) => `${name}.gguf`);
    const folder = ['config.json', 'tokenizer.json', 'vocab.txt', 'tokenizer.model', 'a.py'];
    const others = ['1_Pooling/config.json', '2_Dense/model.safetensors', '2_x-y/config.json'];
    const lists = [
      gguf('m-f16', 'm.Q8_0', 'q4_0', 'mmproj-q8_0', 'Q8_0.imatrix'),
      gguf('a-Q4_K_M', 'b/a-F32', 'xQ6_K', 'Q8_0-00001-of-00002', 'Q8_0-00002-of-00002'),
      gguf('m-Q8_0-00001-of-00001', 'm-F16'),
      gguf('m-Q8_0-00001-of-00001'),
      [...folder, ...others, 'model.safetensors', 'pytorch_model.bin', 'onnx/model.onnx'],
      [...folder, 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors', 'x.bin'],
      [...folder, 'model.safetensors.index.json', 'pytorch_model-1.bin', 'training_args.bin'],
      [...folder, 'onnx/model.onnx', 'onnx/model.onnx_data', 'onnx/model_int8.onnx'],
      [...folder, 'model.onnx', 'model.onnx.data', 'onnx/config.json', 'docs/x.txt'],
      [...folder, 'onnx/model_uint8.onnx', 'model_quantized.onnx'],
      [...folder, 'onnx/model_q4f16.onnx', 'onnx/model_q4.onnx'],
    ];
    for (const [i, names] of lists.entries()) {
      const text = (/** @type {string} */ name) =>
        name.endsWith('.gguf') ? model : '{"model_type": "bert"}';
      hub.commit(`o/${i}`, Object.fromEntries(names.map((name) => [name, text(name)])));
      const options = { endpoint: hub.origin, cacheDir, token: '' };
      hub.forget();
      const theirs = await folderFromHub(`o/${i}`, options);
      const asked = hub.asked.filter((line) => line.startsWith('GET /o/')).sort();
      rmSync(cacheDir, { recursive: true });
      hub.forget();
      const ours = await good(['pull', `hf:o/${i}`]);
      assert.equal(ours, theirs.replace(/\/$/, ''), `${names}`);
      assert.deepEqual(hub.asked.filter((line) => line.startsWith('GET /o/')).sort(), asked);
      rmSync(cacheDir, { recursive: true });
    }
  });

  test('computes with names, also without the server', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    const embed = ['embed', '--text', 'some text', '-m'];
    const expected = wisp([...embed, smallModel()]).out.trim();
    assert.equal(await good([...embed, 'hf:o/m']), expected);
    assert.equal(await good([...embed, 'hf:o/m'], { HF_ENDPOINT: 'http://127.0.0.1:1' }), expected);
    hub.forget();
    assert.equal(await good([...embed, 'hf:o/m', '--offline']), expected);
    assert.deepEqual(hub.asked, []);
    const absent = await run(['embed', '--text', 'a', '--offline', '-m', 'hf:o/other']);
    assert.equal(absent.code, 3);
    assert.match(absent.err, /hf:o\/other@main is not in the cache .*offline/);
    hub.fault = (request, response) => void response.writeHead(503, { 'Retry-After': '0' }).end();
    assert.equal(await good([...embed, 'hf:o/m']), expected);
    const wrong = await run(['pull', 'hf:o']);
    assert.equal(wrong.code, 2);
    for (const name of ['hf:o/..', 'hf:o/m@../x', 'hf:o/m/../../x', 'hf:o/m/a\\b'])
      assert.equal((await run(['pull', name])).code, 2, name);
  });

  test('keeps a token from other servers, and from messages', async (context) => {
    hub.commit('o/m', { 'm.gguf': model });
    hub.token = TOKEN;
    await good(['pull', 'hf:o/m'], { HF_TOKEN: `${TOKEN}\n` });
    const [cdn] = hub.requests.filter(({ url }) => url.startsWith('/blobs/'));
    assert.equal(cdn.headers.authorization, undefined);
    const gated = await run(['pull', 'hf:o/m']);
    assert.equal(gated.code, 1);
    assert.match(gated.err, /HTTP 401 no: GatedRepo: the model is gated/);
    writeFileSync(join(home, 'token'), ` ${TOKEN}\n`);
    await good(['pull', 'hf:o/m']);
    hub.token = 'another';
    hub.fault = (request, response) =>
      void response
        .writeHead(403, { 'X-Error-Message': `no: ${request.headers.authorization}` })
        .end();
    const refused = await run(['pull', 'hf:o/m'], { HF_TOKEN: TOKEN });
    assert.match(refused.err, /\(token\): it does not exist, or the token has no access/);
    const odd = await run(['pull', 'hf:o/m'], { HF_TOKEN: `${TOKEN} x` });
    assert.equal(odd.code, 2);
    for (const { err } of [gated, refused, odd]) assert.ok(!err.includes(TOKEN), err);

    /** @type {(string | undefined)[]} */
    const seen = [];
    const open = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(404).end();
    }).listen(0, '127.0.0.1');
    await once(open, 'listening');
    context.after(() => open.close());
    const certificate = makeCertificate();
    const authority = join(home, 'authority.pem');
    writeFileSync(authority, certificate.cert);
    const to = `http://127.0.0.1:${/** @type {any} */ (open.address()).port}`;
    for (const secure of [true, false]) {
      /** @type {(string | undefined)[]} */
      const given = [];
      const answer = (/** @type {any} */ request, /** @type {any} */ response) => {
        given.push(request.headers.authorization);
        response.writeHead(302, { Location: `${to}${request.url}?signature=${TOKEN}` }).end();
      };
      const server = secure ? createSecureServer(certificate, answer) : createServer(answer);
      await once(server.listen(0, '127.0.0.1'), 'listening');
      context.after(() => server.close());
      const { port } = /** @type {any} */ (server.address());
      for (const name of ['hf:o/n', 'hf:o/n/m.gguf']) {
        const env = {
          HF_ENDPOINT: `http${secure ? 's' : ''}://127.0.0.1:${port}`,
          HF_TOKEN: TOKEN,
          CURL_CA_BUNDLE: authority,
        };
        seen.length = given.length = 0;
        const { code, err } = await run(['pull', name], env);
        assert.notEqual(code, 0);
        assert.deepEqual(new Set(given), new Set([`Bearer ${TOKEN}`]));
        assert.deepEqual(seen, secure ? [] : [undefined]);
        assert.ok(!err.includes(TOKEN), err);
        if (secure) assert.match(err, /which is not encrypted/);
      }
    }
  });

  test('goes on where it was interrupted, as JavaScript does, and checks what it has', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    for (const signal of /** @type {const} */ (['SIGINT', 'SIGKILL'])) {
      rmSync(cacheDir, { recursive: true, force: true });
      await interrupt(signal);
      const [partial] = blobs();
      assert.match(partial, new RegExp(`^${HASH}\\.wisp-\\d+-\\d+\\.incomplete$`));
      hub.forget();
      if (signal === 'SIGINT') assert.ok(readFileSync(await get('o/m')).equals(model));
      else assert.ok(readFileSync(await good(['pull', 'hf:o/m'])).equals(model));
      assert.ok(hub.asked.includes(`GET /blobs/${HASH} bytes=70000-`), hub.asked.join('\n'));
      assert.deepEqual(blobs(), [HASH]);
    }
    rmSync(cacheDir, { recursive: true });
    mkdirSync(join(cacheDir, FOLDER, 'blobs'), { recursive: true });
    const bad = Buffer.from(model.subarray(0, 70_000));
    bad[60_000] ^= 1;
    writeFileSync(join(cacheDir, FOLDER, 'blobs', `${HASH}.wisp-4194999-1.incomplete`), bad);
    const { code, err } = await run(['pull', 'hf:o/m']);
    assert.equal(code, 3);
    assert.match(err, /sha256: the SHA-256 of the downloaded bytes is .*, not /);
    assert.deepEqual(blobs(), []);
  });

  /** Ends a pull when 70,000 bytes have come. @param {'SIGINT' | 'SIGKILL'} signal */
  async function interrupt(signal) {
    hub.fault = (request, response, next) => {
      if (!request.url?.startsWith('/blobs/')) return next();
      response.writeHead(200, { 'Content-Length': model.length });
      response.write(model.subarray(0, 70_000));
    };
    const { child, ended } = start(['pull', 'hf:o/m']);
    const arrived = () =>
      existsSync(join(cacheDir, FOLDER, 'blobs')) &&
      readdirSync(join(cacheDir, FOLDER, 'blobs')).some(
        (name) => readFileSync(join(cacheDir, FOLDER, 'blobs', name)).length === 70_000,
      );
    while (!arrived()) await new Promise((resolve) => setTimeout(resolve, 5));
    child.kill(signal);
    const { code } = await ended;
    if (signal === 'SIGINT') assert.equal(code, 130);
    hub.fault = undefined;
  }

  test('goes on where a connection breaks off, and names one that never goes on', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    let broken = 0;
    hub.fault = (request, response, next) => {
      if (!request.url?.startsWith('/blobs/') || broken++ > 1) return next();
      const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
      const about = { 'Content-Length': model.length - from };
      if (from === 0) response.writeHead(200, about);
      else response.writeHead(206, { ...about, 'Content-Range': `bytes ${from}-${model.length - 1}/${model.length}` }); // prettier-ignore
      response.write(model.subarray(from, from + 50_000), () => response.destroy());
    };
    assert.ok(readFileSync(await good(['pull', 'hf:o/m'])).equals(model));
    assert.equal(fetched().length, 3);
    hub.commit('o/n', { 'm.gguf': Buffer.concat([model, Buffer.alloc(9)]) });
    hub.fault = (request, response, next) =>
      request.url?.startsWith('/blobs/') ? void response.destroy() : next();
    const { code, err } = await run(['pull', 'hf:o/n']);
    assert.equal(code, 1);
    assert.match(err, /cannot reach http/);
  });

  test('several at once fetch a model once each at most, and leave nothing behind', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    const all = [1, 2, 3].map(() => good(['pull', 'hf:o/m']));
    const paths = await Promise.all([...all, get('o/m')]);
    assert.equal(new Set(paths).size, 1);
    assert.ok(fetched().length <= 4);
    assert.deepEqual(blobs(), [HASH]);
  });

  test('refuses what is no model of wisp before its weights come', async () => {
    const key = 'general.architecture';
    const header = Buffer.alloc(1 << 20);
    header.write('GGUF');
    header.writeUInt32LE(3, 4);
    header.writeUInt32LE(1, 16);
    header.writeUInt32LE(key.length, 24);
    header.write(key, 32);
    header.writeUInt32LE(8, 32 + key.length);
    header.writeUInt32LE(8, 36 + key.length);
    header.write('nonesuch', 44 + key.length);
    hub.commit('o/m', { 'm.gguf': header });
    hub.fault = (request, response, next) => {
      if (!request.url?.startsWith('/blobs/')) return next();
      response.writeHead(200, { 'Content-Length': header.length });
      response.write(header.subarray(0, 1000)); // whoever waits for the rest waits for ever
    };
    const other = await run(['pull', 'hf:o/m']);
    assert.equal(other.code, 3);
    assert.match(other.err, /models of architecture nonesuch are not supported/);
    assert.deepEqual(blobs(), []);
    hub.fault = undefined;
    const weights = { 'model.safetensors': Buffer.alloc(5000) };
    hub.commit('o/type', { 'config.json': '{"model_type": "nonesuch"}', ...weights });
    hub.commit('o/page', { 'm.gguf': '<!DOCTYPE html><p>log in</p>' });
    hub.commit('o/lfs', { 'm.gguf': 'version https://git-lfs.github.com/spec/v1\n' });
    hub.commit('o/none', { 'README.md': 'x' });
    hub.commit('o/two', { 'a.gguf': model, 'b.gguf': model });
    hub.commit('o/parts', { 'a-00001-of-00002.gguf': model });
    for (const [name, code, said] of /** @type {[string, number, RegExp][]} */ ([
      ['type', 3, /models of type nonesuch are not supported: its weights were not fetched/],
      ['page', 3, /an HTML page and not the file/],
      ['lfs', 3, /a pointer of Git LFS and not the file/],
      ['none', 3, /has neither a GGUF file nor weights/],
      ['two', 2, /several models: name one of a\.gguf, b\.gguf/],
      ['parts', 3, /has no file a-00002-of-00002\.gguf/],
      ['parts/a-00002-of-00002.gguf', 2, /part 2 of the 2 files.*hf:o\/parts\/a-00001-of-00002/],
      ['gone', 3, /HTTP 401 no: RepoNotFound: it does not exist, or is private/],
    ])) {
      const found = await run(['pull', `hf:o/${name}`]);
      assert.match(found.err, said);
      assert.equal(found.code, code, name);
    }
    assert.ok(!hub.asked.some((line) => line.includes('safetensors')));
    for (const headers of [
      { 'X-Repo-Commit': '../x', ETag: '"a"' },
      { 'X-Repo-Commit': 'a', ETag: '"../x"' },
    ]) {
      hub.fault = (request, response) => void response.writeHead(200, headers).end();
      const hostile = await run(['pull', 'hf:o/m/m.gguf']);
      assert.equal(hostile.code, 3);
      assert.match(hostile.err, /is not the name of a file: it does not come from a Hub/);
    }
  });
});

/** Runs `npx wisp-engine`, without the native program. @param {string[]} args */
async function npx(...args) {
  const env = { ...process.env, HF_ENDPOINT: hub.origin, HF_HOME: home, HF_TOKEN: '' };
  const child = spawn(process.execPath, [`${ROOT}js/cli.js`, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] }); // prettier-ignore
  const said = { out: '', err: '' };
  child.stdout.on('data', (part) => (said.out += part));
  child.stderr.on('data', (part) => (said.err += part));
  const [code] = await once(child, 'close');
  return { code, ...said };
}

test('commands of the package that run in a module take names, too', async () => {
  hub.commit('o/both', { ...filesOf(TINY), 'm.gguf': model });
  const { out } = await npx('inspect', '--format', 'json', 'hf:o/both');
  assert.equal(JSON.parse(out).files[0].bytes, model.length);
});

test('the package fetches, lists and removes models without the program', async () => {
  const none = await npx('list');
  assert.deepEqual([none.code, none.out], [0, '']);
  assert.match(none.err, /^wisp-engine: no models were fetched/);
  assert.equal((await npx('list', '--quiet')).err, '');
  const commit = hub.commit('o/m', { 'a.gguf': model });
  const path = join(cacheDir, FOLDER, 'snapshots', commit, 'a.gguf');
  assert.deepEqual(await npx('pull', 'hf:o/m'), { code: 0, out: `${path}\n`, err: '' });
  const name = `hf:o/m@${commit}/a.gguf`;
  const pulled = JSON.parse((await npx('pull', '--json', name)).out);
  assert.deepEqual(pulled, [{ name, path }]);
  hub.commit('o/folder', filesOf(TINY));
  assert.ok(existsSync(join((await npx('pull', 'hf:o/folder')).out.trim(), 'config.json')));
  const [listed] = JSON.parse((await npx('list', '--json')).out);
  assert.deepEqual([listed.name, listed.bytes, listed.path], [name, model.length, path]);
  assert.match((await npx('list')).out, / MB {2}\d{4}-\d\d-\d\d \d\d:\d\d {2}hf:o\/m@/);
  assert.match((await npx('list', '--remove', 'hf:o/m')).out, /^\d+\.\d MB are free now\n$/);
  assert.ok(!existsSync(path));
  const gone = await npx('list', '--remove', 'hf:o/m');
  assert.deepEqual([gone.code, gone.out], [3, '']);
  assert.match(gone.err, /^wisp-engine: list: hf:o\/m is not in the cache\n$/);
  for (const wrong of [['pull'], ['pull', 'o/m'], ['list', 'x'], ['pull', '--nope']])
    assert.equal((await npx(...wrong)).code, 2);
});

describe('the list', { skip: noCurl }, () => {
  test('has what all programs have fetched, and removes it', async () => {
    assert.match((await run(['list'])).err, /no models were fetched/);
    const first = hub.commit('o/m', { 'a.gguf': model });
    await get('o/m');
    const second = hub.commit('o/m', { 'a.gguf': model, 'b.gguf': Buffer.concat([model, model]) });
    await good(['pull', 'hf:o/m/a.gguf', 'hf:o/m/b.gguf']);
    hub.commit('o--odd/m--2', filesOf(TINY));
    await good(['pull', 'hf:o--odd/m--2']);
    const listed = JSON.parse(await good(['list', '--json']));
    assert.deepEqual(listed.map((/** @type {any} */ { name }) => name).sort(), [
      `hf:o/m/a.gguf`,
      `hf:o/m/b.gguf`,
      `hf:o/m@${first}/a.gguf`,
      `hf:o/odd--m--2`,
    ]);
    const found = listed.find((/** @type {any} */ { name }) => name === 'hf:o/m/a.gguf');
    assert.equal(found.bytes, model.length);
    assert.ok(Math.abs(found.used - Date.now() / 1000) < 3600);
    assert.match(await good(['list']), / MB {2}\d{4}-\d\d-\d\d \d\d:\d\d {2}hf:o\/m\/a\.gguf\n/);
    assert.equal((await listCached({ cacheDir })).length, 3);

    // The blob stays while another commit has it, and a file that a link of the user leads to.
    assert.equal(await good(['list', '--remove', 'hf:o/m/a.gguf@x']).catch(() => 'no'), 'no');
    assert.match(await good(['list', '--remove', `hf:o/m@${first}`]), /^0\.0 MB/);
    assert.ok(blobs().includes(HASH));
    const mine = join(home, 'mine.gguf');
    writeFileSync(mine, model);
    symlinkSync(mine, join(cacheDir, FOLDER, 'snapshots', second, 'mine.gguf'));
    await good(['list', '--remove', 'hf:o/m']);
    assert.ok(!existsSync(join(cacheDir, FOLDER)));
    assert.ok(existsSync(mine));
    assert.equal((await run(['list', '--remove', 'hf:o/m'])).code, 3);
    await good(['pull', 'hf:o/m/a.gguf']);
    assert.equal(await deleteCached('o/m', { cacheDir }), model.length);
  });

  test('what links to folders lead to stays, whoever deletes', async () => {
    const at = (/** @type {string[]} */ ...names) => join(cacheDir, FOLDER, ...names);
    /** @type {[string, (mine: string, commit: string) => void][]} */
    const links = [
      ['blobs', (mine) => linkInstead(at('blobs'), mine)],
      ['a commit', (mine, commit) => linkInstead(at('snapshots', commit), mine)],
      ['a folder in it', (mine, commit) => symlinkSync(mine, at('snapshots', commit, 'sub'))],
    ];
    for (const [what, plant] of links)
      for (const remove of [
        () => run(['list', '--remove', 'hf:o/m']),
        () => deleteCached('o/m', { cacheDir }),
      ]) {
        const mine = mkdtempSync(join(home, 'mine-'));
        const commit = hub.commit('o/m', { 'm.gguf': model });
        await good(['pull', 'hf:o/m']);
        for (const name of ['mine.gguf', ...blobs()]) writeFileSync(join(mine, name), 'GGUF');
        const before = readdirSync(mine);
        plant(mine, commit);
        await remove();
        assert.deepEqual(readdirSync(mine), before, what);
        rmSync(join(cacheDir, FOLDER), { recursive: true, force: true });
      }
  });
});
