// SPDX-License-Identifier: Apache-2.0
// Converting in WebAssembly, beside the program wisp: in Node by wisp-engine/convert and `npx wisp-engine convert`.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openAsBlob,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { convert } from '../../js/convert-node.js';
import { Generator } from '../../js/generate-node.js';
import { Embedder } from '../../js/node.js';
import { WispError } from '../../js/base/errors.js';
import { serve } from '../../js/program/serve.js';
import { folderCases } from './convert/folder-cases.mjs';
import { filesOf, tinyLlama } from './convert/folders.mjs';
import { serveHub } from './hub-server.mjs';
import { runCli } from './package-run.mjs';
import { ROOT, extent, noShared, onlyInAll, sharedPath, smallCalibratedModel, smallModel, wisp } from './support.mjs'; // prettier-ignore

const CLI = `${ROOT}js/cli.js`;
const MODELS = `${ROOT}tests/data/models`;
const TINY = `${MODELS}/cls12`;
const folder = mkdtempSync(join(tmpdir(), 'wisp-convert-'));
after(() => rmSync(folder, { recursive: true }));

let made = 0;
/** A path that is not in use. */
const fresh = () => join(folder, `${++made}.gguf`);

/** @param {string[]} args */
function npx(args) {
  return runCli(CLI, ['convert', ...args]);
}

/**
 * Returns the bytes that the program writes.
 * @param {string} input
 * @param {string[]} [options]
 */
function expected(input, options = []) {
  const path = fresh();
  const { code, err } = wisp(['convert', ...options, input, path]);
  assert.equal(code, 0, err);
  const bytes = readFileSync(path);
  rmSync(path);
  return bytes;
}

/** @param {Uint8Array} bytes @param {Uint8Array} wanted @param {string} what */
function assertSame(bytes, wanted, what) {
  assert.ok(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).equals(wanted), what);
}

/** @param {string} option */
const camel = (option) => option.replace(/-(.)/g, (_, letter) => letter.toUpperCase());

/** @param {string[]} args of the program @returns {any} options of convert */
function optionsOf(args) {
  /** @type {Record<string, unknown>} */
  const options = {};
  for (let i = 0; i < args.length; i++) {
    const name = camel(args[i].slice(2));
    if (/^--(plain|neurons)$/.test(args[i])) options[name] = true;
    else options[name] = /^--(name|type|embedding)/.test(args[i]) ? args[++i] : Number(args[++i]);
  }
  return options;
}

const TYPES = [[], ...['f32', 'f16', 'q8_0', 'q4_0'].map((type) => ['--type', type])];

describe('what is written has the bytes of wisp convert', () => {
  // The module reads neither CLIP and SigLIP nor heads of several labels and ModernBERT's.
  const names = readdirSync(MODELS).filter(
    (name) => !/^(clip|siglip|labels-(?!regression)|rank-modernbert)/.test(name),
  );
  for (const [i, name] of names.entries()) {
    const types = onlyInAll ? [TYPES[i % TYPES.length]] : TYPES;
    test(`${name} as it is and in each type`, async () => {
      for (const args of types) {
        const bytes = await convert(`${MODELS}/${name}`, optionsOf(args));
        assertSame(bytes, expected(`${MODELS}/${name}`, args), args.join(' '));
      }
    });
  }

  test('decoders, whose rotary settings are computed', async () => {
    const old = 32;
    for (const scaling of [
      null,
      { rope_type: 'linear', factor: 3 },
      { rope_type: 'yarn', factor: 3.7, original_max_position_embeddings: old, mscale: 0.7 },
      {
        ...{ rope_type: 'llama3', factor: 8, original_max_position_embeddings: old },
        ...{ low_freq_factor: 1, high_freq_factor: 4 },
      },
    ]) {
      const llama = join(folder, 'llama');
      mkdirSync(llama, { recursive: true });
      for (const [name, bytes] of Object.entries(tinyLlama({ rope_scaling: scaling }))) {
        writeFileSync(join(llama, name), bytes);
      }
      for (const args of TYPES) {
        const bytes = await convert(llama, optionsOf(args));
        assertSame(bytes, expected(llama, args), JSON.stringify([scaling, args]));
      }
    }
  });

  test('other options', async () => {
    for (const args of [
      ['--neurons'],
      ['--name', 'änother "name"'],
      ['--type', 'q8_0', '--embedding-type', 'q4_0', '--neurons'],
    ]) {
      assertSame(await convert(TINY, optionsOf(args)), expected(TINY, args), args.join(' '));
    }
  });

  test('calibrated models and GGUF files', async () => {
    const calibrated = smallCalibratedModel();
    for (const args of [
      ['--plain'],
      ['--hot', '0.5'],
      ['--hot-bytes', '20000', '--hot-tokens', '60'],
      ['--sparsity', '0.7', '--type', 'q8_0'],
    ]) {
      const bytes = await convert(calibrated, optionsOf(args));
      assertSame(bytes, expected(calibrated, args), args.join(' '));
    }
    const small = smallModel();
    assertSame(await convert(small, { type: 'f16' }), expected(small, ['--type', 'f16']), 'gguf');
  });

  test('a model of the real size', { skip: noShared }, async () => {
    const model = sharedPath('models/all-MiniLM-L6-v2');
    for (const type of onlyInAll ? ['q8_0'] : ['f32', 'f16', 'q8_0', 'q4_0']) {
      const output = fresh();
      const { code, out, err } = npx([model, output, '--type', type]);
      assert.deepEqual([code, out, err], [0, '', '']);
      assertSame(readFileSync(output), expected(model, ['--type', type]), type);
      rmSync(output);
    }
  });
});

describe('whatever holds the files', () => {
  /** @type {Buffer} */
  let wanted;
  before(() => {
    wanted = expected(TINY, ['--type', 'q8_0', '--name', 'mine']);
  });
  const options = /** @type {const} */ ({ type: 'q8_0', name: 'mine' });

  test('a path with a slash at its end, and a file: URL', async () => {
    for (const source of [`${TINY}/`, pathToFileURL(TINY), pathToFileURL(TINY).href]) {
      assertSame(await convert(source, { type: 'q8_0' }), expected(TINY, ['--type', 'q8_0']), String(source)); // prettier-ignore
    }
  });

  test('an object, a Map and a list of files', async () => {
    const files = filesOf(TINY);
    assertSame(await convert(files, options), wanted, 'bytes');
    const blobs = new Map(Object.entries(files).map(([name, bytes]) => [name, new Blob([bytes])]));
    assertSame(await convert(/** @type {any} */ (blobs), options), wanted, 'Map');
    const list = [...blobs].map(([name, blob]) =>
      Object.assign(blob, { name: basename(name), webkitRelativePath: `cls12/${name}` }),
    );
    assertSame(await convert(list, { type: 'q8_0' }), expected(TINY, ['--type', 'q8_0']), 'list');
    const [large] = [readFileSync(smallModel())];
    assertSame(await convert(large, options), wanted, 'a GGUF file');
    assertSame(await convert(new Blob([large]), options), wanted, 'a GGUF file as a Blob');
  });

  test('a file behind a Blob that has changed is a typed error', async () => {
    const changing = join(folder, 'changing.json');
    writeFileSync(changing, '{}');
    const changed = await openAsBlob(changing);
    writeFileSync(changing, '{ "model_type": "bert" }');
    await assert.rejects(convert({ 'config.json': changed }), (/** @type {any} */ error) => {
      assert.ok(error instanceof WispError, String(error));
      assert.deepEqual([error.code, error.field], ['io', 'source']);
      assert.match(error.message, /^model\/config\.json: cannot be read: /);
      return true;
    });
  });

  test('what is not a model is refused with what to give', async () => {
    const file = Object.assign(new Blob(['{}']), { name: 'config.json' });
    for (const [source, says] of /** @type {[any, RegExp][]} */ ([
      [[], /there are no files/],
      [[file, file], /two files are called config\.json.*webkitdirectory/],
      [{ 'config.json': 7 }, /'config\.json' is not a File, Blob or bytes/],
      [null, /source is null/],
      [7, /of type number: give a path/],
      ['', /the path is empty/],
      ['a\0b', /NUL/],
    ])) {
      await assert.rejects(convert(source), (/** @type {WispError} */ error) => {
        assert.equal(error.code, 'argument', error.message);
        assert.equal(error.field, 'source');
        assert.match(error.message, says);
        return true;
      });
    }
    await assert.rejects(convert({ 'config.json': Buffer.from('{}') }), {
      code: 'unsupported',
      message: /^model\/config\.json: model_type: /,
    });
  });

  test('a URL of a folder, or of a GGUF file', async () => {
    const server = await serve();
    try {
      for (const name of ['cls12', 'mean-shards', 'overridden', 'colbert-stanford']) {
        /** @type {any[]} */
        const seen = [];
        const url = `${server.origin}/tests/data/models/${name}/`;
        const bytes = await convert(url, { onProgress: (progress) => seen.push(progress) });
        assertSame(bytes, expected(`${MODELS}/${name}`), name);
        assert.deepEqual([...new Set(seen.map(({ phase }) => phase))], ['files', 'tensors']);
      }
      smallModel();
      const file = new URL(`${server.origin}/build/test-models/cls12.gguf`);
      assertSame(await convert(file, options), wanted, 'file');
      await assert.rejects(convert(`${server.origin}/100%/`), { code: 'not_found' });
      await assert.rejects(convert(`${server.origin}/js/`), {
        code: 'not_found',
        message: /js\/config\.json: HTTP 404/,
      });
    } finally {
      await server.close();
    }
  });

  test('a name on the Hub, offline too, and by the program', async () => {
    const hub = await serveHub();
    const cacheDir = mkdtempSync(join(folder, 'hub-'));
    try {
      const more = { 'README.md': 'x', 'onnx/model.onnx': 'x', 'pytorch_model.bin': 'x' };
      hub.commit('o/mine', { ...filesOf(TINY), ...more });
      const from = { endpoint: hub.origin, cacheDir, token: '' };
      /** @type {any[]} */
      const seen = [];
      const onProgress = (/** @type {any} */ progress) => void seen.push(progress);
      const settings = /** @type {const} */ ({ type: 'q8_0' });
      assertSame(await convert('hf:o/mine', { ...from, ...settings, onProgress }), wanted, 'hf:');
      const fetched = seen.filter(({ phase }) => phase === 'files');
      assert.equal(fetched.at(-1).loaded, fetched.at(-1).total);
      assert.ok(!hub.asked.some((line) => /README|onnx|pytorch/.test(line)));
      hub.forget();
      assertSame(await convert('hf:o/mine', { ...from, ...settings }), wanted, 'again');
      assert.deepEqual(hub.asked, ['GET /api/models/o/mine/revision/main']);
      hub.forget();
      const offline = { ...from, ...settings, offline: true };
      assertSame(await convert('hf:o/mine', offline), wanted, 'offline');
      assert.deepEqual(hub.asked, []);
      const output = fresh();
      const env = { HF_ENDPOINT: hub.origin, HF_HUB_CACHE: cacheDir, HF_TOKEN: '' };
      const child = spawn(process.execPath, [CLI, 'convert', 'hf:o/mine', output, '--type=q8_0'], {
        env: { ...process.env, ...env },
        stdio: 'inherit',
      });
      assert.deepEqual(await once(child, 'exit'), [0, null]);
      assertSame(readFileSync(output), wanted, 'program');
      hub.commit('o/bin', { 'config.json': '{}', 'pytorch_model.bin': 'x' });
      await assert.rejects(convert('hf:o/bin', from), {
        code: 'unsupported',
        message: /model_type/,
      });
      for (const name of [
        'checkpoint',
        'checkpoint-old',
        'onnx',
        'onnx-new',
        'onnx-int8',
        'onnx-q4',
        'colbert-stanford',
      ]) {
        const source = join(MODELS, name);
        const native = fresh();
        assert.equal(wisp(['convert', source, native]).code, 0);
        hub.commit(`o/${name}`, filesOf(source));
        assertSame(await convert(`hf:o/${name}`, from), readFileSync(native), name);
      }
      hub.commit('o/gguf', { 'm.gguf': readFileSync(smallModel()) });
      assertSame(await convert('hf:o/gguf', { ...from, ...options }), wanted, 'a GGUF file');
    } finally {
      await hub.close();
    }
  });
});

describe('what goes wrong is what wisp convert says', () => {
  const taken = extent('folders with a fault', folderCases.length, 15);
  const step = Math.ceil(folderCases.length / taken);
  for (const { name, change } of folderCases.filter((_, i) => i % step === 0)) {
    test(name, async () => {
      const broken = join(folder, 'broken');
      const output = join(folder, 'out.gguf');
      rmSync(broken, { recursive: true, force: true });
      cpSync(TINY, broken, { recursive: true });
      change(broken);
      const native = wisp(['convert', broken, output]);
      rmSync(output, { force: true });
      const outcome = await convert(broken, { output }).then(
        () => ({ code: 0, err: '' }),
        (error) => {
          assert.ok(error instanceof WispError, String(error));
          const isOfModel = ['not_found', 'format', 'unsupported'].includes(error.code);
          return { code: isOfModel ? 3 : 1, err: `wisp: ${error.message}\n` };
        },
      );
      // The module converts fewer types of models than the program, and a message names them.
      // So it does with the steps of tokenizers.
      const said = (/** @type {string} */ err) =>
        err.replace(/(models of type .*), only .*|(normalizer: ).*/, '$1$2');
      assert.deepEqual(
        { ...outcome, err: said(outcome.err) },
        { code: native.code, err: said(native.err) },
      );
      assert.deepEqual(readdirSync(folder).filter((file) => /out\.gguf/.test(file)), native.code === 0 ? ['out.gguf'] : []); // prettier-ignore
      rmSync(output, { force: true });
    });
  }

  test('errors have the code and the field', async () => {
    const broken = join(folder, 'fields');
    cpSync(TINY, broken, { recursive: true });
    const config = JSON.parse(readFileSync(join(broken, 'config.json'), 'utf8'));
    writeFileSync(join(broken, 'config.json'), JSON.stringify({ ...config, hidden_size: -8 }));
    await assert.rejects(convert(broken), {
      code: 'format',
      field: 'hidden_size',
      message: /broken|fields\/config\.json: hidden_size: .*-8/,
    });
    await assert.rejects(convert(TINY, /** @type {any} */ ({ type: 'q9' })), {
      code: 'argument',
      field: 'type',
      message: /q9 is not one of f32, f16, q8_0, q4_0/,
    });
    await assert.rejects(convert(TINY, { plain: true, neurons: true }), { field: 'neurons' });
    await assert.rejects(convert(TINY, { sparsity: 0.5 }), { code: 'not_found', message: /not calibrated/ }); // prettier-ignore
    for (const options of [
      { hot: 1 },
      { hotBytes: 0.5 },
      { hotTokens: -1 },
      { sparsity: '0.5' },
      { plain: 1 },
      { name: 7 },
      { name: 'a\0' },
      { output: '' },
      { output: 7 },
      { nothing: 1 },
      null,
    ]) {
      await assert.rejects(convert(TINY, /** @type {any} */ (options)), { code: 'argument' });
    }
  });

  test('a module that is none, or not there', async () => {
    const wasm = join(folder, 'no.wasm');
    writeFileSync(wasm, 'no module');
    await assert.rejects(convert(TINY, { wasm }), { code: 'unsupported' });
    await assert.rejects(convert(TINY, { wasm: join(folder, 'none.wasm') }), { code: 'not_found' });
    await assert.rejects(convert(TINY, { worker: join(folder, 'none.js') }), { code: 'worker' });
  });
});

describe('the output', () => {
  test('replaces the file that a link leads to, with its mode', async () => {
    const target = join(folder, 'target.gguf');
    const link = join(folder, 'link.gguf');
    writeFileSync(target, 'GGUF old');
    chmodSync(target, 0o600);
    symlinkSync(target, link);
    assert.equal(await convert(TINY, { output: link }), link);
    assertSame(readFileSync(target), expected(TINY), 'link');
    assert.equal(statSync(target).mode & 0o777, 0o600);
    rmSync(link);
  });

  test('may be the input', async () => {
    const path = fresh();
    cpSync(smallModel(), path);
    await convert(path, { output: path, type: 'q8_0', name: 'x' });
    assertSame(readFileSync(path), expected(smallModel(), ['--type', 'q8_0', '--name', 'x']), '');
  });

  test('stays as it was where the conversion is aborted or fails, and nothing is left', async () => {
    const output = join(folder, 'kept', 'kept.gguf');
    mkdirSync(join(folder, 'kept'));
    writeFileSync(output, 'GGUF old');
    const stop = new AbortController();
    const onProgress = () => stop.abort();
    await assert.rejects(convert(TINY, { output, signal: stop.signal, onProgress }), {
      name: 'AbortError',
      code: 'cancelled',
    });
    await assert.rejects(convert(TINY, { output, signal: AbortSignal.abort() }), { code: 'cancelled' }); // prettier-ignore
    const mine = new TypeError('mine');
    const throwing = () => {
      throw mine;
    };
    await assert.rejects(convert(TINY, { output, onProgress: throwing }), mine);
    await assert.rejects(convert(ROOT, { output }), { code: 'not_found' });
    assert.deepEqual(readdirSync(join(folder, 'kept')), ['kept.gguf']);
    assert.equal(readFileSync(output, 'utf8'), 'GGUF old');
    await convert(TINY, { output });
    assertSame(readFileSync(output), expected(TINY), 'afterwards');
  });

  test('in a folder that is not there, or instead of one', async () => {
    const message = /none\/x\.gguf: cannot create a temporary file beside it: no such file/;
    const output = join(folder, 'none', 'x.gguf');
    await assert.rejects(convert(TINY, { output }), { code: 'io', field: 'output', message });
    await assert.rejects(convert(TINY, { output: folder }), { code: 'io', message: /not a regular file/ }); // prettier-ignore
  });

  test('a disk without room', { skip: process.platform !== 'linux' && 'no limit' }, () => {
    // 64 blocks of 1,024 bytes: a write past them fails.
    const line = `trap '' XFSZ; ulimit -f 64; exec "$0" "$@"`;
    const output = fresh();
    const args = ['-c', line, process.execPath, CLI, 'convert', TINY, output];
    const { status, stderr } = spawnSync('bash', args);
    assert.equal(status, 1);
    assert.match(String(stderr), /\.gguf: cannot write: file too large\n$/);
    assert.ok(!readdirSync(folder).some((name) => name.startsWith(basename(output))));
  });
});

describe('npx wisp-engine convert', () => {
  /** @type {[string, string[], number, RegExp][]} */
  const cases = [
    ['no output', [TINY], 2, /convert: give one input and one output/],
    ['an unknown option', ['--nope'], 2, /'--nope'.*convert --help/],
    ['an empty input', ['', 'x'], 2, /input: the path is empty/],
    ['an empty output', [TINY, ''], 2, /output: the path is empty/],
    ['a share', ['--hot', '1', TINY, 'x'], 2, /--hot 1: expected a number above 0 and below 1/],
    ['bytes', ['--hot-bytes', '3X', TINY, 'x'], 2, /--hot-bytes 3X: expected a number of bytes/],
    [
      'tokens',
      ['--hot-tokens', '0', TINY, 'x'],
      2,
      /--hot-tokens 0: expected a whole number from 1/,
    ],
    ['a type', ['--type', 'q9', TINY, join(folder, 'x')], 2, /type: q9 is not one of f32, f16/],
    ['no input', ['/nowhere', join(folder, 'x')], 3, /\/nowhere: cannot open: No such file or dir/],
    ['no folder', [TINY, '/nowhere/x'], 1, /\/nowhere\/x: cannot create a temporary file beside/],
    ['no model', [CLI, join(folder, 'x')], 3, /cli\.js: /],
  ];
  for (const [name, args, code, says] of cases) {
    test(name, () => {
      const run = npx(args);
      assert.deepEqual([run.code, run.out], [code, ''], run.err);
      assert.match(run.err, says);
    });
  }

  test('bytes and shares are read as wisp reads them', () => {
    const calibrated = smallCalibratedModel();
    for (const args of [
      ['--hot-bytes', '20K'],
      ['--hot', '.5', '--sparsity', '6e-1'],
    ]) {
      const output = fresh();
      assert.equal(npx([...args, calibrated, output]).code, 0);
      assertSame(readFileSync(output), expected(calibrated, args), args.join(' '));
    }
  });

  test('the output is the standard output, too', () => {
    const path = join(folder, 'both');
    writeFileSync(path, 'GGUF old');
    const { status, stderr } = spawnSync(process.execPath, [CLI, 'convert', TINY, path], {
      stdio: ['ignore', openSync(path, 'a'), 'pipe'],
    });
    assert.equal(status, 1);
    assert.match(String(stderr), /output: .*both is the standard output, too/);
    assert.equal(readFileSync(path, 'utf8'), 'GGUF old');
  });

  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    test(`${signal} ends it: 130, and nothing is left`, async () => {
      /** @type {() => void} */
      let asked = () => {};
      const isAsked = new Promise((resolve) => (asked = () => resolve(undefined)));
      const server = createServer(() => asked()); // never answers
      await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      const place = mkdtempSync(join(folder, 'stopped-'));
      const url = `http://127.0.0.1:${port}/model/`;
      const child = spawn(process.execPath, [CLI, 'convert', url, join(place, 'x.gguf')]);
      let said = '';
      child.stderr.on('data', (bytes) => (said += bytes));
      await isAsked;
      child.kill(signal);
      assert.deepEqual(await once(child, 'close'), [130, null]);
      assert.equal(said, '');
      assert.deepEqual(readdirSync(place), []);
      server.close();
      server.closeAllConnections();
    });
  }
});

describe('Embedder.load', () => {
  test('takes a folder, files and a name, with the rows of the converted file', async () => {
    const own = await Embedder.load(smallModel(), { workers: 1, backend: 'wasm' });
    const wanted = [...(await own.embed('find the water')).values()];
    await own.close();
    const hub = await serveHub();
    const files = filesOf(TINY);
    hub.commit('o/m', files);
    const { HF_ENDPOINT, HF_HUB_CACHE } = process.env;
    Object.assign(process.env, { HF_ENDPOINT: hub.origin, HF_HUB_CACHE: join(folder, 'cache') });
    try {
      for (const source of [TINY, pathToFileURL(TINY), files, 'hf:o/m']) {
        /** @type {string[]} */
        const seen = [];
        const embedder = await Embedder.load(/** @type {any} */ (source), {
          workers: 1,
          backend: 'wasm',
          onProgress: ({ phase }) => void seen.push(phase),
        });
        assert.deepEqual([...(await embedder.embed('find the water')).values()], wanted);
        assert.ok(seen.includes('model') && seen.includes('workers'));
        await embedder.close();
      }
      await assert.rejects(Embedder.load(ROOT), { code: 'not_found', message: /config\.json/ });
      await assert.rejects(Embedder.load(TINY, { signal: AbortSignal.abort() }), { code: 'cancelled' }); // prettier-ignore
    } finally {
      for (const [name, value] of Object.entries({ HF_ENDPOINT, HF_HUB_CACHE })) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
      await hub.close();
    }
  });
});

test('Generator.load takes a folder', async () => {
  const files = tinyLlama();
  const texts = [];
  for (const source of [files, await convert(files)]) {
    const generator = await Generator.load(/** @type {any} */ (source));
    texts.push(await generator.generate('hello', { maxTokens: 8 }).text());
    await generator.close();
  }
  assert.ok(texts[0].length > 0);
  assert.equal(texts[0], texts[1]);
});

test('memory is flat over many conversions', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc');
  const resident = async () => {
    for (let i = 0; i < 3; i++) {
      collectGarbage();
      await new Promise((done) => setTimeout(done, 20));
    }
    const { rss, heapUsed, external } = process.memoryUsage();
    return { rss: rss / 1e6, owned: (heapUsed + external) / 1e6 };
  };
  const files = filesOf(TINY);
  const broken = { ...files, 'model.safetensors': files['model.safetensors'].subarray(0, 5000) };
  const round = async () => {
    await convert(files, { type: 'q8_0' });
    await assert.rejects(convert(broken), { code: 'format' });
  };
  for (let i = 0; i < 10; i++) await round();
  const start = await resident();
  const handles = readdirSync('/proc/self/fd').length;
  const most = extent('conversions', 50, 20);
  for (let i = 0; i < most; i++) await round();
  const end = await resident();
  assert.ok(end.owned < start.owned + 1, `${start.owned} MB became ${end.owned} MB`);
  assert.ok(end.rss < start.rss + 30, `resident: ${start.rss} MB became ${end.rss} MB`);
  assert.equal(readdirSync('/proc/self/fd').length, handles);
});
