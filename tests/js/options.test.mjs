// SPDX-License-Identifier: Apache-2.0
// The tables of options (js/base/options.js, text-options.js) beside what is written elsewhere: the types, and what C takes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { before, describe, test } from 'node:test';
import { WispError } from '../../js/base/errors.js';
import { BULK_OPTIONS, EMBED_OPTIONS, LOAD_OPTIONS, checkOption, checkOptions, engineOptions } from '../../js/base/options.js'; // prettier-ignore
import { BATCH_OPTIONS, BEAM_OPTIONS, CHAT_OPTIONS, GENERATE_OPTIONS, TEXT_OPTIONS, nameInC } from '../../js/base/text-options.js'; // prettier-ignore
import { NativeEngine } from '../../js/native/native-engine.js';
import { ADDON, ROOT, noAddon, smallCalibratedModel } from './support.mjs';

/** @typedef {import('../../js/base/text-options.js').TextOption} Option */

/** @param {string} path */
const read = (path) => readFileSync(`${ROOT}${path}`, 'utf8');

/**
 * The members of an interface and of those that it extends: their types and whether they have a comment.
 * @param {string} name
 * @returns {Map<string, { type: string, comment: boolean }>}
 */
function membersOf(name) {
  const text = read('types/index.d.ts') + read('types/generate.d.ts');
  const head = `interface ${name}(?: extends ([\\w, ]+))? \\{`;
  const found = new RegExp(`${head}(?:\\}|\n([^]*?)\n\\})`).exec(text);
  assert.ok(found, name);
  const [, bases = '', body = ''] = found;
  const members = new Map(bases.split(', ').filter(Boolean).flatMap((base) => [...membersOf(base)])); // prettier-ignore
  for (const [, comment, member, type] of body.matchAll(
    /(\*\/\n)?^ {2}(\w+)\?:\s*([^]*?)(?=;\n {2}(?:\/\*\*|\w+\??:)|;$(?![^]))/gm,
  ))
    // prettier-ignore
    members.set(member, { type: type.replace(/\s+/g, ' '), comment: Boolean(comment) });
  return members;
}

test('options that an object inherits are checked as its own are', async () => {
  const inherits = (/** @type {object} */ values) => Object.create(values);
  assert.throws(() => checkOptions(inherits({ signal: 5 }), BULK_OPTIONS), { field: 'signal' });
  assert.throws(() => checkOptions(inherits({ signal: 5 }), ['signal']), { field: 'signal' });
  checkOptions(inherits({ other: 5 }), BULK_OPTIONS);
  checkOptions(inherits({ priority: 'low' }), BULK_OPTIONS);
  const { Embedder } = await import('../../js/node.js');
  const prototype = /** @type {any} */ (Object.prototype);
  for (const [name, value] of /** @type {[string, any][]} */ ([
    ['signal', {}],
    ['signal', 5],
    ['workers', 'x'],
  ])) {
    prototype[name] = value;
    const failed = await Embedder.load().then(
      () => 'loaded',
      (error) => error,
    );
    delete prototype[name];
    assert.ok(failed instanceof WispError, `${name}: ${failed}`);
    assert.deepEqual([failed.code, failed.field], ['argument', name]);
  }
});

/** Types of TypeScript for those of the tables. @type {Record<string, RegExp>} */
const IN_TYPESCRIPT = {
  text: /^(string|'[^']+'( \| '[^']+')*) \| undefined$/,
  flag: /^boolean \| undefined$/,
  number: /^number \| undefined$/,
  'nonzero number': /^number \| undefined$/,
  whole: /^number( \| '\w+')* \| undefined$/,
  name: /^'\w+'( \| '\w+')* \| undefined$/,
  function: /^\(\(.*\) => \w+\) \| undefined$/,
  script: /^string \| KnownURL \| \(\(\) => any\) \| undefined$/,
  signal: /^KnownSignal \| undefined$/,
};

/** @type {[name: string, options: Record<string, Option>][]} */
const TYPED = [
  ['LoadOptions', LOAD_OPTIONS],
  ['BulkOptions', BULK_OPTIONS],
  ['EmbedCallOptions', EMBED_OPTIONS],
  ['TextOptions', TEXT_OPTIONS],
  ['GenerateOptions', GENERATE_OPTIONS],
  ['BatchOptions', BATCH_OPTIONS],
  ['ChatOptions', CHAT_OPTIONS],
  ['BeamOptions', BEAM_OPTIONS],
];

for (const [name, options] of TYPED) {
  test(`${name} of types/ has the options of its table, with their types`, () => {
    const members = membersOf(name);
    assert.deepEqual([...members.keys()].sort(), Object.keys(options).sort());
    for (const [option, { is, names = [] }] of Object.entries(options)) {
      const { type, comment } = /** @type {any} */ (members.get(option));
      if (is) assert.match(type, IN_TYPESCRIPT[is], option);
      const named = [...type.matchAll(/'(\w+)'/g)].map(([, each]) => each).sort();
      if (names.length > 0) assert.deepEqual(named, [...names].sort(), option);
      if (option !== 'onProgress') assert.ok(comment || name !== 'LoadOptions', `${option} has no comment`); // prettier-ignore
    }
  });
}

/** @param {string} path @param {RegExp} row */
const rowsOf = (path, row) => [...read(path).matchAll(row)].map(([, ...cells]) => cells);

test('src/binding/engine.c takes the options that an engine has, for a model or a session', () => {
  const kinds = { CHOICE: 'text', KERNELS: 'text', TEXT: 'text', FLAG: 'flag', WHOLE: 'whole', BYTES: 'whole', SPARSITY: 'number' }; // prettier-ignore
  const rows = rowsOf(
    'src/binding/engine.c',
    /^ {4}\{"(\w+)", (?:OF_FILES\()?([A-Z]+)\)?, (\w+)\(/gm,
  );
  // cold-engine.js says which bytes are there, and sparsity is changed while the session is open.
  const found = rows
    .filter(([name]) => !['available', 'skip_absent'].includes(name))
    .map(([name, kind, of]) => [name, kinds[/** @type {'FLAG'} */ (kind)], of === 'MODEL' ? 'model' : 'session']); // prettier-ignore
  const wanted = Object.entries(LOAD_OPTIONS).filter(([, { of }]) => of);
  assert.deepEqual(found.sort(), wanted.map(([name, { is, of }]) => [name, is, of]).sort());
});

test('src/binding/generate/text.c takes the options that are numbers or flags', () => {
  const kinds = { FLOAT: 'number', WHOLE: 'whole', SEED: 'whole', FLAG: 'flag', NO_FLAG: 'flag' };
  const rows = rowsOf('src/binding/generate/text.c', /^ {4}\{"(\w+)", ([A-Z_]+), \w+\((.*)\)\}/gm);
  const wanted = Object.entries(CHAT_OPTIONS).filter(([, { is }]) => /^((nonzero )?number|whole|flag)$/.test(is ?? '')); // prettier-ignore
  assert.deepEqual(
    rows.map(([name, kind]) => [name, kinds[/** @type {'FLAG'} */ (kind)]]).sort(),
    wanted.map(([name, { is }]) => [nameInC(name), is?.replace('nonzero ', '')]).sort(),
  );
  for (const [name, , field] of rows) {
    const [, { inC = name }] = wanted.find(([each]) => nameInC(each) === name) ?? ['', {}];
    assert.equal(field.split('.').at(-1), inC, name);
  }
});

test('each type refuses other values, and says what it is', () => {
  /** @type {[option: Option, good: any[], wrong: any[], message: RegExp][]} */
  const cases = [
    [{ is: 'text' }, ['', 'a'], [null, 1, {}, 'a\0b'], /^x: [^]* is not a string without NUL$/],
    [{ is: 'flag' }, [true, false], [null, 1, 'true'], /is not true or false$/],
    [{ is: 'number' }, [-1, 0.5, NaN], [null, '1', {}], /is not a number$/],
    [{ is: 'nonzero number' }, [-1, 0.5], [0, '1', null], /is not a number other than 0$/],
    [{ is: 'number', least: 0 }, [0, Infinity], [-1, NaN, '1'], /is not a number from 0$/],
    [{ is: 'whole', least: 1, most: 8 }, [1, 8], [0, 9, 1.5, '1', NaN], /a whole number from 1 to 8$/],
    [{ is: 'whole', least: 1, most: 8, names: ['auto'] }, ['auto', 2], ['none', 0], /from 1 to 8$/],
    [{ is: 'name', names: ['a', 'b'] }, ['a', 'b'], ['c', 0, null], /is not one of a, b$/],
    [{ is: 'function' }, [() => {}], [{}, null], /is not a function$/],
    [{ is: 'script' }, ['a.js', () => {}], ['', 0, null], /is not a URL or a function$/],
    [{ is: 'signal' }, [new AbortController().signal], [{}, null, 1], /the signal of an AbortController$/],
    [{}, [null, 1, {}], [], /./],
  ]; // prettier-ignore
  for (const [option, good, wrong, message] of cases) {
    for (const value of [undefined, ...good]) checkOption(value, 'x', option);
    for (const value of wrong) {
      const error = { name: 'WispError', code: 'argument', field: 'x', message };
      assert.throws(() => checkOption(value, 'x', option), error, `${option.is} ${String(value)}`);
    }
  }
  assert.throws(() => checkOptions({ x: 1 }, LOAD_OPTIONS), { field: 'x' });
  assert.throws(() => checkOptions({ recall: 1 }, LOAD_OPTIONS), { field: 'recall' });
  assert.throws(() => checkOptions({ signal: 1 }, ['signal']), { field: 'signal' });
  for (const none of [null, 1]) assert.throws(() => checkOptions(none, []), { field: 'options' });
  const given = { workers: 2, threads: 3, compute: 'f32', sparsity: 0.5, onProgress() {} };
  assert.deepEqual(engineOptions(given), { threads: 3, compute: 'f32', sparsity: 0.5 });
});

describe('native engines share weights', { skip: noAddon }, () => {
  /** Other values than the default of options that C takes. @type {Record<string, any>} */
  const OTHER = {
    ...{
      compute: 'f32',
      kernels: 'scalar',
      predictor: 'dense',
      portable: true,
      memory: 1e6,
      device: 'cpu',
    },
    ...{
      threads: 2,
      sparsity: 0.25,
      recall: true,
      attention: 'local',
      cacheType: 'int8',
      promptCache: 'folder',
      promptCacheSize: 1e9,
      kvMemory: 1e8,
      vectorCache: 'folder',
      vectorCacheSize: 1e9,
    },
  };
  /** What some options need. @type {Record<string, object>} */
  const NEEDED = {
    sparsity: { predictor: 'lowrank' },
    promptCacheSize: { promptCache: OTHER.promptCache },
    vectorCacheSize: { vectorCache: OTHER.vectorCache },
  };
  /** @type {Uint8Array} */
  let bytes;
  before(() => {
    bytes = new Uint8Array(readFileSync(smallCalibratedModel()));
  });

  /** Opens two engines. Returns how often the model was opened. @param {object[]} options of each */
  async function opened(...options) {
    let count = 0;
    const addon = createRequire(import.meta.url)(ADDON);
    const counting = {
      ...addon,
      openModel: (/** @type {any[]} */ ...of) => (count++, addon.openModel(...of)),
      // `memory` is for models by range, which the addon does not open, this model has no prompts to keep and no policies, and its embeddings are not kept here.
      set: (/** @type {any} */ handle, /** @type {string} */ name, /** @type {any[]} */ ...of) =>
        /^(memory|attention|promptCache|kvMemory|vectorCache)$/.test(name)
          ? undefined
          : addon.set(handle, name, ...of),
    };
    const engines = options.map(() => new NativeEngine(counting, true));
    const own = bytes.slice();
    for (const [i, engine] of engines.entries()) await engine.open(own, options[i]);
    for (const engine of engines) await engine.close();
    return count;
  }

  for (const [name, { of }] of Object.entries(LOAD_OPTIONS).filter(([, { of }]) => of)) {
    test(`${name} of a ${of}: ${of === 'model' ? 'not with other values' : 'whatever its value'}`, async () => {
      assert.ok(name in OTHER, `${name}: give a value that is not the default`);
      const base = NEEDED[name] ?? {};
      const other = { ...base, [name]: OTHER[name] };
      assert.equal(await opened(base, other), of === 'model' ? 2 : 1);
      assert.equal(await opened(other, other), 1);
      assert.equal(await opened({ ...base, [name]: undefined }, base), 1);
    });
  }

  test('a device that is not there is a typed error', async () => {
    process.env.WISP_CUDA_LIBRARY = '/nonexistent/libwisp-cuda.so';
    try {
      await assert.rejects(opened({ device: 'cuda' }), {
        name: 'WispError',
        code: 'unsupported',
        field: 'device',
      });
      assert.equal(await opened({ device: 'auto' }), 1);
    } finally {
      delete process.env.WISP_CUDA_LIBRARY;
    }
  });

  test('an option that no table knows may change them', async () => {
    await assert.rejects(opened({}, { unknown: 1 }), WispError);
    const { of } = LOAD_OPTIONS.recall;
    LOAD_OPTIONS.recall.of = undefined;
    try {
      assert.equal(await opened({}, { recall: true }), 2);
    } finally {
      LOAD_OPTIONS.recall.of = of;
    }
  });
});
