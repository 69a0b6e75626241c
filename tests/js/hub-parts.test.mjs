// SPDX-License-Identifier: Apache-2.0
// Models in several files, as llama-gguf-split writes them: by path, by name on the Hub and by URL, in the program and in
// Node, with the rows of the same model in one file.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { deleteCached, listCached } from '../../js/hub-node.js';
import { convert } from '../../js/convert-node.js';
import { Embedder } from '../../js/node.js';
import { serve } from '../../js/program/serve.js';
import { FOLDER, blobs, cacheDir, fail, get, home, hub, model } from './hub-home.mjs';
import { begin, noCurl } from './remote/program.mjs';
import { splitFiles } from './split-model.mjs';
import { ADDON, noAddon, smallModel } from './support.mjs';

const FILES = splitFiles(model, 3);
const NAMES = Object.keys(FILES);
const TEXT = 'hello world';
const BYTES = Object.values(FILES).reduce((sum, { length }) => sum + length, 0);

/** @param {string[]} args */
async function run(args) {
  const env = { HF_ENDPOINT: hub.origin, HF_HOME: home, HF_TOKEN: '' };
  const { child, ended } = begin(join(home, 'wisp'), args, env);
  child.stdin.end();
  const { code, rows, err } = await ended;
  return { code, out: String(rows).trim(), err };
}

/** @param {string[]} args */
async function good(args) {
  const { code, out, err } = await run(args);
  assert.equal(code, 0, err);
  return out;
}

/** @param {string} name @param {string[]} args */
const embed = (name, ...args) => good(['embed', '--model', name, '--text', TEXT, ...args]);

/** @param {string} folder @returns {string} the path of the first of the files, which it writes there */
function writtenTo(folder) {
  for (const [name, bytes] of Object.entries(FILES)) writeFileSync(join(folder, name), bytes);
  return join(folder, NAMES[0]);
}
const written = () => writtenTo(mkdtempSync(join(tmpdir(), 'wisp-parts-')));

/** Adds general.alignment with the value 0. @param {Buffer} part */
function withAlignment(part) {
  const key = 'general.alignment';
  const numbers = Buffer.from(BigUint64Array.of(part.readBigUInt64LE(16) + 1n, 17n).buffer);
  const value = Buffer.from(Uint32Array.of(4, 0).buffer); // its type, u32, and 0
  return Buffer.concat([part.subarray(0, 16), numbers, Buffer.from(key), value, part.subarray(24)]);
}

const site = await serve({ root: dirname(written()) });
const URL_OF_FIRST = `${site.origin}/${NAMES[0]}`;
after(() => site.close());

describe('the program', { skip: noCurl }, () => {
  test('fetches all files of a model by its name, which is one model in the cache', async () => {
    const expected = await embed(smallModel());
    const commit = hub.commit('o/m', { 'README.md': 'x', ...FILES });
    const path = await good(['pull', 'hf:o/m']);
    assert.equal(path, join(cacheDir, FOLDER, 'snapshots', commit, NAMES[0]));
    assert.equal(blobs().length, 3);
    assert.equal(await embed('hf:o/m'), expected);
    assert.equal(await embed('hf:o/m', '--offline'), expected);
    hub.forget();
    assert.equal(await embed(`hf:o/m@${commit}/${NAMES[0]}`), expected);
    assert.deepEqual(hub.asked, []);
    assert.equal(await get(`o/m/${NAMES[0]}`), path);
    const [kept, ...others] = JSON.parse(await good(['list', '--json']));
    assert.deepEqual(others, []);
    assert.equal(kept.name, `hf:o/m/${NAMES[0]}`);
    assert.equal(kept.bytes, BYTES);
    await good(['list', '--remove', kept.name]);
    assert.deepEqual(JSON.parse(await good(['list', '--json'])), []);
  });

  test('continues with the files that are absent, and refuses a model without one of them', async () => {
    hub.commit('o/m', FILES);
    hub.fault = (request, response, next) =>
      request.url?.includes(NAMES[2]) ? void response.writeHead(404).end() : next();
    const broken = await run(['pull', 'hf:o/m']);
    assert.equal(broken.code, 3, broken.err);
    assert.equal((await run(['embed', '--model', 'hf:o/m', '--offline', '--text', 'x'])).code, 3);
    hub.fault = undefined;
    hub.forget();
    await good(['pull', 'hf:o/m']);
    assert.equal(hub.asked.filter((line) => line.includes('/blobs/')).length, 1);
  });

  test('fetches them by URL, and nothing the second time', async () => {
    const expected = await embed(smallModel());
    const url = `${URL_OF_FIRST}?key=1`;
    assert.equal(await embed(url), expected);
    assert.equal(await embed(url, '--offline'), expected);
    const later = await run(['pull', `${site.origin}/${NAMES[1]}`]);
    assert.match(later.err, /part 2 of 3 of a model: name the first/);
    await good(['list', '--remove', url.split('?')[0]]);
    assert.deepEqual(JSON.parse(await good(['list', '--json'])), []);
  });
});

describe('Node', () => {
  for (const backend of /** @type {const} */ (['wasm', 'native'])) {
    test(
      `loads them by path, name and URL (${backend})`,
      { skip: backend === 'native' && noAddon },
      async () => {
        const options = { workers: 0, backend, ...(backend === 'native' && { addon: ADDON }) };
        /** @param {string} source */
        const rowOf = async (source) => {
          const embedder = await Embedder.load(source, options);
          try {
            return await embedder.embed(TEXT);
          } finally {
            await embedder.close();
          }
        };
        const expected = await rowOf(smallModel());
        assert.deepEqual(await rowOf(written()), expected);
        assert.deepEqual(await rowOf(URL_OF_FIRST), expected);
        hub.commit('o/m', FILES);
        assert.deepEqual(await rowOf(await get('o/m')), expected);
      },
    );
  }

  test('lists and deletes them as one model', async () => {
    const commit = hub.commit('o/m', FILES);
    const path = await get('o/m');
    hub.forget();
    assert.equal(await get(`o/m@${commit}/${NAMES[0]}`), path);
    assert.deepEqual(hub.asked, []);
    assert.equal(await get('o/m', { offline: true }), path);
    const name = `hf:o/m@${commit}/${NAMES[0]}`;
    assert.deepEqual(await listCached({ cacheDir }), [
      { name, source: path, bytes: BYTES, complete: true },
    ]);
    assert.equal(await deleteCached(name, { cacheDir }), BYTES);
    assert.deepEqual(await listCached({ cacheDir }), []);
  });

  test('converts them to one file', async () => {
    const whole = await convert(smallModel());
    assert.deepEqual(await convert(written()), whole);
    assert.deepEqual(await convert(URL_OF_FIRST), whole);
  });

  test('refuses another part, a part that is absent and one that is another', async () => {
    hub.commit('o/m', FILES);
    const later = await fail(`o/m/${NAMES[1]}`);
    assert.equal(later.code, 'argument');
    assert.match(later.message, /part 2 of the 3 files of a model: name the first.*00001-of-00003/);
    const first = written();
    /** @returns {Promise<any>} */
    const load = () => Embedder.load(first, { workers: 0 }).catch((error) => error);
    writeFileSync(first.replace('00001-of', '00002-of'), FILES[NAMES[2]]);
    const wrong = await load();
    assert.equal(wrong.code, 'format');
    assert.match(wrong.message, /00002-of-00003.gguf: split\.no: 2, and its place needs 1/);
    const natively = await run(['embed', '--model', first, '--text', TEXT]);
    assert.match(natively.err, /00002-of-00003.gguf: split\.no: 2, and its place needs 1/);
    writeFileSync(first.replace('00001-of', '00002-of'), model);
    assert.match((await load()).message, /split\.no: absent/);
    assert.match((await run(['embed', '--model', first, '--text', TEXT])).err, /split\.no: absent/);
    writeFileSync(first.replace('00001-of', '00002-of'), readFileSync(first).subarray(0, 500));
    assert.match((await load()).message, /ends in its header/);
    hub.commit('o/m', { [NAMES[0]]: FILES[NAMES[0]] });
    assert.equal((await fail('o/m')).code, 'not_found');
    hub.commit('o/m', { 'm-00001-of-00257.gguf': model });
    const many = await fail('o/m');
    assert.match(many.message, /part 1 of the 257 files of a model: name the first of at most 256/);
    if (!noCurl)
      assert.match(
        (await run(['pull', 'hf:o/m'])).err,
        /of the 257 files of a model.* at most 256/,
      );
  });

  // The first value of a part is that of split.no, behind the counts of the header, its key and its type.
  const VALUE = 24 + 8 + 'split.no'.length + 4;
  /** @param {number} at @param {number} number @returns {(part: Buffer) => Buffer} */
  const put = (at, number) => (part) => {
    part.writeUInt32LE(number, at);
    return part;
  };
  /** @type {[string, number, (part: Buffer) => Buffer, RegExp][]} */
  const damages = [
    ['a part that ends within its last bytes', 1, (part) => part.subarray(0, -10), /m-00002-of.*bytes of tensors, not a multiple of 32/], // prettier-ignore
    ['a last part that ends within its last bytes', 2, (part) => part.subarray(0, -1), /past the end of the file/], // prettier-ignore
    ['a part without its last tensor', 1, (part) => part.subarray(0, -64), /its data is at offset/],
    ['a part with more bytes', 1, (part) => Buffer.concat([part, Buffer.alloc(64)]), /its data is at offset/], // prettier-ignore
    ['an empty part', 1, () => Buffer.alloc(0), /m-00002-of.*ends in its header/],
    ['too many tensors', 1, put(12, 1 << 28), /m-00002-of.*ends in its header/],
    ['too long a key', 1, put(28, 1 << 30), /m-00002-of.*ends in its header/],
    ['an unknown type', 1, put(VALUE - 4, 99), /m-00002-of.*split\.no: 99 is not a type/],
    ['another alignment', 0, withAlignment, /m-00001-of.*general\.alignment: it is not a power of two/], // prettier-ignore
  ];
  for (const [what, i, damage, message] of damages)
    test(`refuses ${what}`, async () => {
      const first = written();
      writeFileSync(join(dirname(first), NAMES[i]), damage(Buffer.from(FILES[NAMES[i]])));
      const loaded = Embedder.load(first, { workers: 0 });
      await assert.rejects(loaded, { code: 'format', message });
    });
});
