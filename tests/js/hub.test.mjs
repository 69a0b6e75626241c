// SPDX-License-Identifier: Apache-2.0
// Models by name in Node, from a server with the Hub's paths, in the cache that huggingface_hub uses too.
import assert from 'node:assert/strict';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { RepoCache } from '../../js/hub/hub-cache.js';
import { deleteCached, listCached } from '../../js/hub-node.js';
import { checkMagic } from '../../js/hub/hub.js';
import { Embedder } from '../../js/node.js';
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
import { sha256 } from './hub-server.mjs';
import { ROOT, noTool, smallModel } from './support.mjs';

describe('models by name', () => {
  test('a name becomes a file of the cache, with its layout; the second time only its state is asked', async () => {
    const commit = hub.commit('o/m', { 'README.md': 'x', 'sub/m-q8_0.gguf': model });
    /** @type {number[]} */
    const seen = [];
    const path = await get('hf:o/m', {
      onProgress: ({ loaded, total }) => {
        assert.equal(total, model.length);
        seen.push(loaded);
      },
    });
    assert.equal(path, join(cacheDir, FOLDER, 'snapshots', commit, 'sub/m-q8_0.gguf'));
    assert.equal(readlinkSync(path), `../../../blobs/${HASH}`);
    assert.equal(readFileSync(join(cacheDir, FOLDER, 'refs/main'), 'utf8'), commit);
    assert.deepEqual(blobs(), [HASH]);
    assert.ok(readFileSync(path).equals(model));
    assert.equal(seen.at(-1), model.length);
    assert.deepEqual(hub.asked, [
      'GET /api/models/o/m/revision/main',
      'HEAD /o/m/resolve/main/sub/m-q8_0.gguf',
      `GET /o/m/resolve/${commit}/sub/m-q8_0.gguf`,
      `GET /blobs/${HASH}`,
    ]);
    hub.forget();
    assert.equal(await get('o/m/sub/m-q8_0.gguf'), path);
    assert.deepEqual(hub.asked, ['HEAD /o/m/resolve/main/sub/m-q8_0.gguf']);
    hub.forget();
    assert.equal(await get(`o/m@${commit}/sub/m-q8_0.gguf`), path);
    assert.deepEqual(hub.asked, []);
  });

  test('Embedder.load takes a name; the environment says where from and where to', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    const script = `
      import { Embedder } from './js/node.js';
      const seen = [];
      const embedder = await Embedder.load('hf:o/m', { workers: 0, onProgress: (p) => seen.push(p) });
      const rows = await embedder.embed('one');
      await embedder.close();
      const models = seen.filter(({ phase }) => phase === 'model');
      if (models.at(-1).loaded !== ${model.length}) throw seen;
      if (models.some(({ loaded }, i) => i > 0 && loaded < models[i - 1].loaded)) throw seen;
      console.log(Array.from(rows).join());`;
    const own = await Embedder.load(smallModel(), { workers: 0 });
    const expected = `${Array.from(await own.embed('one')).join()}\n`;
    await own.close();
    hub.token = 'hf_secret';
    const env = { HF_ENDPOINT: `${hub.origin}/`, HF_HOME: home, HF_TOKEN: 'hf_secret\n' };
    assert.equal(await node(env, script), expected);
    assert.ok(existsSync(join(home, 'hub', FOLDER, 'blobs', HASH)));
    const cdn = hub.requests.filter(({ url }) => url.startsWith('/blobs/'));
    assert.equal(cdn.length, 1);
    assert.equal(cdn[0].headers.authorization, undefined, 'another host got the token');

    writeFileSync(join(home, 'token'), 'hf_secret\n');
    const elsewhere = { HF_ENDPOINT: hub.origin, HF_HOME: home, HF_HUB_CACHE: `${home}/else` };
    assert.equal(await node(elsewhere, script), expected);
    assert.ok(existsSync(join(home, 'else', FOLDER, 'blobs', HASH)));

    hub.forget();
    const offline = { HF_ENDPOINT: hub.origin, XDG_CACHE_HOME: home, HF_HUB_OFFLINE: 'yes' };
    mkdirSync(join(home, 'huggingface'));
    symlinkSync('../else', join(home, 'huggingface/hub'));
    assert.equal(await node(offline, script), expected);
    assert.deepEqual(hub.asked, []);
  });

  describe('huggingface_hub', { skip: noTool('python') }, () => {
    /** @param {string} script */
    const python = async (script) => {
      const env = {
        PATH: process.env.PATH,
        HF_ENDPOINT: hub.origin,
        HF_HOME: home,
        HF_HUB_DISABLE_XET: '1',
        HF_HUB_DISABLE_TELEMETRY: '1',
      };
      const { stdout } = await run(`${ROOT}.tools/bin/python`, ['-c', script], { env });
      return stdout.trim();
    };
    const CALL =
      "from huggingface_hub import hf_hub_download, scan_cache_dir\nprint(hf_hub_download('o/m', 'a/m.gguf'";

    test('finds what wisp wrote, without a request for its bytes, and offline', async () => {
      hub.commit('o/m', { 'a/m.gguf': model });
      const path = await get('o/m');
      hub.forget();
      assert.equal(await python(`${CALL}))`), path);
      assert.deepEqual(hub.asked, ['HEAD /o/m/resolve/main/a/m.gguf']);
      assert.equal(await python(`${CALL}, local_files_only=True))`), path);
      const scan = await python(
        'from huggingface_hub import scan_cache_dir\nc = scan_cache_dir()\n' +
          'print(c.warnings, c.size_on_disk, [r.repo_id for r in c.repos])',
      );
      assert.equal(scan, `[] ${model.length} ['o/m']`);
    });

    test('writes what wisp finds, and both at once do no harm', async () => {
      const commit = hub.commit('o/m', { 'a/m.gguf': model });
      const path = await python(`${CALL}))`);
      hub.forget();
      assert.equal(await get('o/m'), path);
      assert.ok(hub.asked.every((line) => !line.includes('/blobs/')));
      assert.equal(await get('o/m', { offline: true }), path);
      rmSync(cacheDir, { recursive: true });
      const [theirs, ...ours] = await Promise.all([python(`${CALL}))`), get('o/m'), get('o/m')]);
      assert.deepEqual([theirs, ...ours], [path, path, path]);
      assert.deepEqual(blobs(), [HASH]);
      assert.equal(readlinkSync(path), `../../../blobs/${HASH}`);
      assert.deepEqual(readdirSync(join(cacheDir, FOLDER, 'snapshots', commit)), ['a']);
    });
  });

  test('a branch that moves gets a new snapshot beside the old one', async () => {
    const first = hub.commit('o/m', { 'm.gguf': model });
    const old = await get('o/m');
    const other = Buffer.concat([model, Buffer.alloc(32)]);
    const second = hub.commit('o/m', { 'm.gguf': other });
    const path = await get('o/m');
    assert.notEqual(path, old);
    assert.ok(readFileSync(path).equals(other) && readFileSync(old).equals(model));
    assert.equal(readFileSync(join(cacheDir, FOLDER, 'refs/main'), 'utf8'), second);
    assert.equal(await get(`o/m@${first}`, { offline: true }), old);
    // A commit with the same bytes needs no transfer.
    hub.commit('o/m', { 'm.gguf': other, 'README.md': 'new' });
    hub.forget();
    assert.ok(readFileSync(await get('o/m')).equals(other));
    assert.ok(hub.asked.every((line) => !line.includes('/blobs/')));
    assert.deepEqual(blobs().sort(), [HASH, sha256(other)].sort());
  });

  test('revisions: tags, pull requests, in the name or as an option', async () => {
    const commit = hub.commit('o/m', { 'm.gguf': model }, 'refs/pr/7');
    const path = await get('o/m@refs/pr/7');
    assert.ok(path.includes(commit));
    assert.equal(readFileSync(join(cacheDir, FOLDER, 'refs/refs/pr/7'), 'utf8'), commit);
    assert.equal(await get('o/m@refs%2Fpr%2F7/m.gguf'), path);
    assert.equal(await get('o/m', { revision: 'refs/pr/7', file: 'm.gguf' }), path);
    assert.equal(await get('o/m@refs/pr/7', { offline: true }), path);
    for (const [name, options] of /** @type {const} */ ([
      ['m', {}],
      ['hf:o', {}],
      ['o/m/../../x.gguf', {}],
      ['o/..', {}],
      ['o/m@..', {}],
      ['o/m/a\\b.gguf', {}],
      ['o/m/x.gguf', { file: 'y.gguf' }],
      ['o/m@a', { revision: 'b' }],
      ['o/m', { revision: '../../x' }],
      ['o/m', { size: 3 }],
    ])) {
      assert.equal((await fail(name, /** @type {any} */ (options))).code, 'argument', name);
    }
  });

  test('of several files the first type in the list is chosen, else they are named', async () => {
    /** @param {string[]} names */
    const choose = async (...names) => {
      hub.commit('o/m', Object.fromEntries(names.map((name) => [name, model])));
      const result = await get('o/m').catch((error) => error);
      return typeof result === 'string' ? result.split('/').at(-1) : result;
    };
    assert.equal(await choose('m-f16.gguf', 'm-q4_k_m.gguf', 'm-Q8_0.gguf'), 'm-Q8_0.gguf');
    assert.equal(await choose('m.F32.gguf', 'm.BF16.gguf', 'mmproj-F16.gguf'), 'm.BF16.gguf');
    assert.equal(await choose('imatrix.gguf', 'odd.gguf'), 'odd.gguf');
    const several = await choose('a.gguf', 'b.gguf');
    assert.equal(several.code, 'argument');
    assert.equal(several.field, 'file');
    assert.match(several.message, /o\/m has several models; name one of a\.gguf, b\.gguf/);
    assert.match((await choose('a-Q8_0.gguf', 'b-Q8_0.gguf')).message, /several models/);
    const parts = ['m-Q8_0-00002-of-00002.gguf', 'm-Q8_0-00001-of-00002.gguf'];
    const other = ['m-F16-00001-of-00001.gguf'];
    assert.equal(await choose(...parts), parts[1]);
    assert.equal(await choose(...parts, 'm-F16-00001-of-00003.gguf'), parts[1]);
    assert.equal(await choose(...parts, ...other), other[0]);
    const folder = await choose('config.json', 'model.safetensors', 'tokenizer.json');
    assert.equal(folder.code, 'unsupported');
    assert.match(
      folder.message,
      /no GGUF file. import 'wisp-engine\/convert'.*npx wisp-engine convert hf:o\/m/,
    );
  });

  test('refusals name the address, the status and the remedy', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    const nobody = await fail('nobody/m');
    assert.equal(nobody.code, 'not_found');
    assert.match(nobody.message, /api\/models\/nobody\/m\/revision\/main.*HTTP 401 no: RepoNotFound: it does not exist, or is private or gated: give a token/); // prettier-ignore
    assert.match((await fail('o/m@v9')).message, /HTTP 404.*no such revision/);
    assert.equal((await fail('o/m/none.gguf')).code, 'not_found');
    assert.match((await fail('o/m/none.gguf')).message, /HTTP 404.*no such file/);
    hub.token = 'good';
    assert.match((await fail('o/m')).message, /HTTP 401.*gated: ask for access on its page/);
    hub.fault = (_, response) => void response.writeHead(403).end();
    assert.match((await fail('o/m', { token: 'bad' })).message, /HTTP 403 Forbidden.*token has no access/); // prettier-ignore
    hub.fault = (_, response) => void response.writeHead(429, { 'Retry-After': '3600' }).end();
    const busy = await fail('o/m');
    assert.equal(busy.code, 'io');
    assert.match(busy.message, /HTTP 429.*try again in 3600 s/);
    hub.fault = (_, response) => void response.writeHead(503, { 'Retry-After': '0' }).end();
    hub.forget();
    assert.match((await fail('o/m')).message, /HTTP 503.*out of order; try again later/);
    assert.equal(hub.asked.length, 4);
    assert.match((await fail('o/m', { endpoint: 'http://127.0.0.1:9' })).message, /cannot reach http:\/\/127\.0\.0\.1:9\/api/); // prettier-ignore
  });

  test('a server that is out of order for a moment is asked again', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    let left = 3;
    hub.fault = (_, response, next) =>
      left-- > 0
        ? void response.writeHead(left % 2 ? 429 : 502, { 'Retry-After': '0' }).end()
        : next();
    assert.ok(readFileSync(await get('o/m')).equals(model));
  });

  test('what is stored serves while the server is out of order, and does not where it refuses', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    const path = await get('o/m');
    hub.fault = (_, response) => void response.writeHead(500, { 'Retry-After': '0' }).end();
    assert.equal(await get('o/m'), path);
    assert.equal(await get('o/m', { endpoint: 'http://127.0.0.1:9' }), path);
    hub.fault = (_, response) => void response.writeHead(401).end();
    assert.equal((await fail('o/m')).code, 'io');
    const offline = await fail('o/other', { offline: true });
    assert.equal(offline.code, 'not_found');
    assert.match(offline.message, /is not in the cache .*load it once with a connection/);
  });

  test('answers that are not a model: HTML, a pointer, other lengths, other bytes, no Hub', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    /** @param {number} status @param {string | Buffer} body @param {Record<string, any>} [headers] */
    const answerBytes = (status, body, headers) => {
      hub.fault = (request, response, next) =>
        request.url?.startsWith('/blobs/')
          ? void response.writeHead(status, headers).end(body)
          : next();
    };
    /** @param {RegExp} pattern */
    const wrong = async (pattern) => {
      const error = await fail('o/m');
      assert.equal(error.code, 'format', error.message);
      assert.match(error.message, pattern);
      assert.deepEqual(blobs(), []);
    };
    answerBytes(200, '<!doctype html>', { 'Content-Type': 'text/html' });
    await wrong(/is an HTML page/);
    answerBytes(200, 'version https://git-lfs', {});
    await wrong(/pointer of Git LFS/);
    answerBytes(200, model.subarray(0, 100), { 'Content-Length': 100 });
    await wrong(/100 bytes came, not/);
    answerBytes(200, Buffer.concat([model, model]));
    await wrong(/bytes came, not/);
    const flipped = Buffer.from(model);
    flipped[5000] ^= 1;
    answerBytes(200, flipped);
    await wrong(/SHA-256 of the downloaded bytes is [0-9a-f]{64}, not/);
    hub.fault = (_, response) => void response.writeHead(200).end('<html>log in</html>');
    assert.match((await fail('o/m')).message, /not JSON: it is not a Hub/);
    assert.match((await fail('o/m/m.gguf')).message, /no X-Repo-Commit: it does not come from a Hub; check HF_ENDPOINT/); // prettier-ignore
    hub.fault = (_, response) =>
      void response.writeHead(200, { 'X-Repo-Commit': '../../x', ETag: '"a"' }).end();
    assert.equal((await fail('o/m/m.gguf')).code, 'format');
  });

  test('redirects are followed: to another name on the server, and by a mirror without headers', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    hub.token = 'secret';
    hub.fault = (request, response, next) =>
      request.url?.includes('old/name')
        ? void response.writeHead(307, { Location: request.url.replace('old/name', 'o/m') }).end()
        : next();
    const path = await get('old/name', { token: 'secret' });
    assert.ok(readFileSync(path).equals(model));
    assert.ok(path.includes('models--old--name'));
    hub.fault = (request, response) =>
      void response.writeHead(302, { Location: String(request.url) }).end();
    assert.match((await fail('o/m/m.gguf')).message, /redirects/);
  });

  test('without links the snapshot has the file itself', async () => {
    hub.commit('o/m', { 'm.gguf': model });
    const script = "import { fromHub } from './js/hub-node.js'; console.log(await fromHub('o/m'))";
    const env = { HF_ENDPOINT: hub.origin, HF_HOME: home, HF_HUB_DISABLE_SYMLINKS: '1' };
    const path = (await node(env, script)).trim();
    assert.ok(lstatSync(path).isFile());
    assert.ok(readFileSync(path).equals(model));
    assert.deepEqual(blobs(), []); // no second copy
    assert.equal(await get('o/m'), path);
    // A blob that another commit links to stays where it is.
    rmSync(cacheDir, { recursive: true });
    const linked = await get('o/m');
    hub.commit('o/m', { 'm.gguf': model, 'README.md': 'x' });
    const copied = (await node(env, script)).trim();
    assert.ok(lstatSync(copied).isFile() && lstatSync(linked).isSymbolicLink());
    assert.ok(readFileSync(copied).equals(readFileSync(linked)));
  });

  test('the cache is listed, and models are deleted with the blobs that nothing else has', async () => {
    const first = hub.commit('o/m', { 'm.gguf': model });
    await get('o/m');
    const second = hub.commit('o/m', { 'm.gguf': model, 'n.gguf': Buffer.concat([model, model]) });
    await get('o/m/m.gguf');
    await get('o/m/n.gguf');
    const names = (await listCached({ cacheDir })).map(({ name }) => name).sort();
    assert.deepEqual(
      names,
      [`hf:o/m@${first}/m.gguf`, `hf:o/m@${second}/m.gguf`, `hf:o/m@${second}/n.gguf`].sort(),
    );
    assert.equal(await deleteCached(`hf:o/m@${first}/m.gguf`, { cacheDir }), 0);
    assert.equal(await deleteCached('o/m/n.gguf', { cacheDir }), 2 * model.length);
    assert.equal((await listCached({ cacheDir })).length, 1);
    assert.equal(await deleteCached(undefined, { cacheDir }), model.length);
    assert.deepEqual(await listCached({ cacheDir }), []);
    assert.deepEqual(blobs(), []);
  });

  test('names that no address can have, and options of other types, are refused by name', async () => {
    for (const [name, options, field] of /** @type {[string, any, string][]} */ ([
      ['o/m\ud800', {}, 'repo'],
      ['o/m/\udc00.gguf', {}, 'file'],
      ['o/m', { endpoint: new URL(hub.origin) }, 'endpoint'],
      ['o/m', { token: 5 }, 'token'],
      ['o/m', { cacheDir: {} }, 'cacheDir'],
    ])) {
      const { code, field: found } = await fail(name, options);
      assert.deepEqual([code, found], ['argument', field]);
    }
  });

  test('a link that a user has made to a file elsewhere is deleted, and the file is not', async () => {
    const commit = hub.commit('o/m', { 'm.gguf': model });
    const path = await get('o/m');
    const own = join(home, 'own.gguf');
    writeFileSync(own, 'GGUF');
    symlinkSync(own, join(cacheDir, FOLDER, 'snapshots', commit, 'own.gguf'));
    assert.equal(await deleteCached(undefined, { cacheDir }), model.length);
    assert.ok(existsSync(own) && !existsSync(path));
    assert.deepEqual(await listCached({ cacheDir }), []);
  });
});

test('the first bytes tell a page and a pointer of Git LFS from files of a folder', () => {
  const check = (/** @type {string} */ text, /** @type {string} */ url) =>
    checkMagic(new TextEncoder().encode(text), url);
  check('<s>\n<pad>\n', 'https://host/vocab.txt');
  check('<|im_start|>user', 'https://host/chat_template.jinja');
  check('version 4', 'https://host/version.txt');
  check('GGUF', 'https://host/model');
  for (const url of ['vocab.txt', 'template.jinja', 'config.json', 'model.gguf']) {
    assert.throws(() => check('<!DOCTYPE html><html>', url), { code: 'format', message: /HTML/ });
    const pointer = 'version https://git-lfs.github.com/spec/v1\n';
    assert.throws(() => check(pointer, url), { code: 'format', message: /Git LFS/ });
  }
});

test('names of 255 bytes: revisions, and files that are copied or whose link is replaced', async () => {
  const files = new RepoCache(cacheDir, 'o/m');
  const [commit, other] = ['1', '2'].map((digit) => digit.repeat(40));
  const long = 'n'.repeat(255);
  await files.setCommit(long, commit);
  assert.equal(await files.commitOf(long), commit);

  mkdirSync(files.blobs, { recursive: true });
  writeFileSync(files.blob(HASH), model);
  const copy = await files.point(HASH, commit, long, { links: false, isNew: false });
  assert.ok(readFileSync(copy).equals(model));
  mkdirSync(join(cacheDir, FOLDER, 'snapshots', other));
  symlinkSync('nowhere', files.snapshot(other, long));
  const link = await files.point(HASH, other, long, { links: true, isNew: false });
  assert.ok(readFileSync(link).equals(model));
  assert.deepEqual(readdirSync(join(cacheDir, FOLDER, 'snapshots', other)), [long]);
});

test('a name without hf: is a path, and the error says what to write', async () => {
  for (const [source, isName] of /** @type {[string, boolean][]} */ ([
    ['Xenova/all-MiniLM-L6-v2', true],
    ['models/none.gguf', false],
    ['./a/b', false],
    ['a/b/c', false],
  ])) {
    const error = await Embedder.load(source).catch((/** @type {any} */ reason) => reason);
    assert.equal(error.code, 'not_found');
    assert.equal(error.message.endsWith(`; did you mean 'hf:${source}'?`), isName, error.message);
  }
});
