// SPDX-License-Identifier: Apache-2.0
// Commands of the program wisp by `npx wisp-engine`, beside that program: natively, and in WebAssembly.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { installNative, runCli } from './package-run.mjs';
import { shortTexts } from './pool/texts.mjs';
import { DEFAULT_MODEL_PATH, ROOT, noAddon, smallCalibratedModel, smallModel, wisp } from './support.mjs'; // prettier-ignore
import { until } from './this-process.mjs';

const CLI = `${ROOT}js/cli.js`;
const MODEL = smallModel();
const STORIES = `${ROOT}models/wisp-stories.gguf`;
const TEXTS = shortTexts(64, 0).join('\n');
const FIT = ['--data', '-', '--rank', '8', '--sparsity', '0.6'];
const folder = mkdtempSync(join(tmpdir(), 'wisp-npx-program-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} name */
const at = (name) => join(folder, name);

// A package for this platform as npm installs it: require() finds it in this folder.
const packages = at('packages');
const native = { NODE_PATH: packages };
if (!noAddon) installNative(packages, { hasProgram: true });

/**
 * @param {string[]} args
 * @param {string} [input]
 * @param {Record<string, string>} [env]
 * @param {string[]} [node] options of Node
 */
function npx(args, input = '', env = {}, node = []) {
  return runCli(CLI, args, { input, env: { ...process.env, ...env }, node });
}

/** Arguments for a model whose header has digests. */
const PINNED = ['eval', 'sts', '-m', smallCalibratedModel(), '--header-sha256'];

/** Everything but the time that it took. @param {string} table of calibrate */
const withoutTime = (table) => table.replace(/[\d.]+ s\n$/, '');

/** @param {string} a @param {string} b */
const assertSame = (a, b) => assert.ok(readFileSync(a).equals(readFileSync(b)), `${a} and ${b}`);

describe('quantize in WebAssembly does what the program does', () => {
  /** @type {[string, string[]][]} */
  const cases = [
    ['blocks of 32', ['--type', 'q4_0']],
    ['K-quants, with a type for rows that do not fit', ['--type', 'q4_k', '--fallback', 'q8_0']],
    ['a table of fitted values', ['--type', 'iq4_nl', '--embedding-type', 'f16']],
    ['ternary', ['--type', 'bitnet_t158', '--fallback', 'q8_0', '--any-architecture']],
    ['JSON', ['--type', 'q5_1', '--format', 'json']],
  ];
  for (const [name, options] of cases) {
    test(name, () => {
      const [own, expected] = [at('own.gguf'), at('expected.gguf')];
      const run = npx(['quantize', ...options, DEFAULT_MODEL_PATH, own]);
      const program = wisp(['quantize', ...options, DEFAULT_MODEL_PATH, expected]);
      assert.deepEqual([run.code, run.err, run.out], [program.code, program.err, program.out]);
      assert.equal(run.code, 0, run.err);
      assertSame(own, expected);
    });
  }

  test('a folder of Hugging Face, and reports', () => {
    const input = `${ROOT}tests/data/models/cls12`;
    const options = ['--type', 'q8_0', '--fallback', 'f16', '--report'];
    const run = npx(['quantize', ...options, at('own'), input, at('own.gguf')]);
    assert.equal(run.code, 0, run.err);
    const expected = [...options, at('expected'), input, at('expected.gguf')];
    assert.equal(run.out, wisp(['quantize', ...expected]).out);
    for (const end of ['.gguf', '.json', '.svg']) assertSame(at(`own${end}`), at(`expected${end}`));
  });

  test('what types would cost, and a policy', () => {
    for (const args of [
      ['--dry-run', '--type', 'q8_0,q4_0', DEFAULT_MODEL_PATH],
      ['--show-policy', 'default'],
    ]) {
      const run = npx(['quantize', ...args]);
      assert.deepEqual([run.code, run.out], [0, wisp(['quantize', ...args]).out]);
    }
  });

  test('a file is replaced where a link leads to it, and keeps its mode', () => {
    const [target, link] = [at('kept.gguf'), at('link.gguf')];
    writeFileSync(target, 'before', { mode: 0o640 });
    symlinkSync('kept.gguf', link);
    const run = npx(['quantize', '-f', '--type', 'f16', MODEL, link]);
    assert.equal(run.code, 0, run.err);
    assert.ok(lstatSync(link).isSymbolicLink());
    assert.equal(statSync(target).mode & 0o777, 0o640);
    assert.equal(readFileSync(target).subarray(0, 4).toString(), 'GGUF');
  });
});

describe('calibrate in WebAssembly', () => {
  const own = at('calibrated.gguf');
  const expected = at('calibrated-expected.gguf');

  test('learns what the program learns', () => {
    const run = npx(['calibrate', MODEL, ...FIT, '-o', own, '--report', at('report')], TEXTS);
    assert.equal(run.code, 0, run.err);
    const program = wisp(['calibrate', MODEL, ...FIT, '-o', expected], TEXTS);
    const lines = (/** @type {string} */ out) => out.split('\n').length;
    assert.equal(lines(run.out), lines(program.out));
    // Kernels of two instruction sets round differently.
    const mean = (/** @type {string} */ out) => Number(/mean (\d\.\d+)/.exec(out)?.[1]);
    assert.ok(Math.abs(mean(run.out) - mean(program.out)) < 2e-3, run.out + program.out);
    assert.equal(JSON.parse(readFileSync(at('report.json'), 'utf8')).layers.length, 12);
    const shapes = (/** @type {string} */ file) =>
      JSON.parse(wisp(['inspect', '--format', 'json', file]).out).tensors.map(
        (/** @type {any} */ { name, type, shape, elements }) => ({ name, type, shape, elements }),
      );
    assert.deepEqual(shapes(own), shapes(expected));
  });

  test('of which convert --plain makes the model that it was', () => {
    const [plain, before] = [at('plain.gguf'), at('before.gguf')];
    assert.equal(wisp(['convert', '--plain', own, plain]).code, 0);
    assert.equal(wisp(['convert', '--plain', MODEL, before]).code, 0);
    assertSame(plain, before);
  });

  test('the same texts give the same file', () => {
    const again = at('again.gguf');
    writeFileSync(at('texts.txt'), `${TEXTS}\n`);
    const args = ['calibrate', MODEL, '--data', at('texts.txt'), ...FIT.slice(2), '-o', again];
    assert.equal(npx(args).code, 0);
    assertSame(again, own);
  });
});

describe('commands that look at models say in WebAssembly what the program says', () => {
  const lines = 'find the water\n\nA man is eating food.\n';
  const pairs = '5\tA cat sleeps.\tA cat sleeps.\n1\tA cat sleeps.\tStocks fell.\n3\ta\tthe\n';
  const subjects = at('subjects');
  const question = '"Two and two, or ""2 + 2""?",3,4,5,6,B\n';
  before(() => {
    mkdirSync(subjects);
    for (const name of ['sums_test', 'sums_dev', 'more_test'])
      writeFileSync(join(subjects, `${name}.csv`), question.repeat(7));
    writeFileSync(at('not a subject'), '');
  });

  /** @type {[string, string[], string][]} */
  const cases = [
    ['inspect: a table', ['inspect', MODEL], ''],
    ['inspect: JSON, with hashes', ['inspect', '--format', 'json', '--sha256', MODEL], ''],
    ['inspect: a folder', ['inspect', `${ROOT}tests/data/models/cls12`], ''],
    ['inspect: how values are distributed', ['inspect', '--histogram', MODEL], ''],
    ['inspect: no file', ['inspect', '/nowhere'], ''],
    ['tokenize: lines, by the default model', ['tokenize'], lines],
    ['tokenize: a table', ['tokenize', '-m', MODEL, '--format', 'table'], lines],
    ['tokenize: texts of ids', ['tokenize', '--decode', '-m', STORIES, '--text', '[1,2,3]'], ''],
    ['eval: another header than the one that is pinned', [...PINNED, '0'.repeat(64)], 'a\tb\t1\n'],
    ['eval: no hash', [...PINNED, 'x'], ''],
    ['eval sts: no scores', ['eval', 'sts', '-m', MODEL], 'five\ta\tb\n'],
    ['eval mmlu: no folder', ['eval', 'mmlu', '-m', STORIES, '/nowhere'], ''],
    ['eval mmlu: no subjects', ['eval', 'mmlu', '-m', STORIES, packages], ''],
    ['similarity: neither a query nor pairs', ['similarity'], ''],
    ['rerank: no cross-encoder', ['rerank', '-m', MODEL, '--query', 'a'], lines],
    ['index: no action', ['index'], ''],
    ['search: no index', ['search', '/nowhere', '--query', 'a'], ''],
    ['generate: a model that embeds', ['generate', '-m', MODEL, '--text', 'a'], ''],
    ['generate: help', ['generate', '--help'], ''],
  ];
  for (const [name, args, input] of cases) {
    test(name, () => {
      const run = npx(args, input);
      const program = wisp(args, input);
      assert.deepEqual([run.code, run.err, run.out], [program.code, program.err, program.out]);
      assert.ok(run.out !== '' || run.code !== 0);
    });
  }

  /** The members of an object but the name of the kernels. @param {string} json */
  const figures = (json) => Object.entries(JSON.parse(json)).filter(([key]) => key !== 'kernels');

  /** @type {[string, string[], string][]} */
  const evals = [
    ['sts', ['eval', 'sts', '--json', '-m', DEFAULT_MODEL_PATH], pairs],
    ['ppl, by the model that generates', ['eval', 'ppl', '--json'], `${lines.repeat(40)}`],
    ['mmlu', ['eval', 'mmlu', '--json', '--shots', '1', '-m', STORIES, subjects], ''],
  ];
  for (const [name, args, input] of evals) {
    test(`eval ${name}`, () => {
      const run = npx(args, input);
      assert.equal(run.code, 0, run.err);
      const expected = figures(wisp([...args, '--compute', 'f32'], input).out);
      const found = figures(npx([...args, '--compute', 'f32'], input).out);
      assert.equal(found.length, expected.length);
      // Kernels of two instruction sets round differently.
      for (const [i, [key, value]] of expected.entries()) {
        assert.equal(found[i][0], key);
        if (typeof value !== 'number') assert.deepEqual(found[i][1], value, key);
        else assert.ok(Math.abs(Number(found[i][1]) - value) <= 1e-3 * Math.abs(value), key);
      }
    });
  }

  /** Texts, and scores if they are near to those of the program. @param {string[]} args @param {string} [input] */
  const assertFinds = (args, input) => {
    const [own, program] = [npx(args, input), wisp(args, input)];
    assert.deepEqual([own.code, own.err], [0, ''], own.err);
    const split = (/** @type {string} */ out) =>
      out.split('\n').map((line) => /^(-?\d\.\d+)?(.*)/.exec(line)?.slice(1) ?? []);
    const [found, expected] = [split(own.out), split(program.out)];
    assert.deepEqual(found.map(([, text]) => text), expected.map(([, text]) => text)); // prettier-ignore
    for (const [i, [score]] of found.entries())
      assert.ok(Math.abs(Number(score ?? 0) - Number(expected[i][0] ?? 0)) < 0.03, own.out);
  };

  test('similarity and search find what the program finds, in the same index', () => {
    const notes = at('notes.txt');
    writeFileSync(notes, 'The cat sleeps on the sofa.\nInterest is due.\nPlants make sugar.\n');
    const query = ['--query', 'how do plants eat?'];
    assertFinds(['similarity', ...query, notes]);
    assertFinds(['similarity', '--pairs'], 'a cat\ta kitten\na cat\ttaxes\n');
    const index = at('notes.index');
    assert.equal(npx(['index', 'build', index, notes]).out, '3 added\n');
    assert.equal(npx(['index', 'add', index, '--input', 'ndjson'], '{"id":"x","text":"A bicycle."}').out, '1 added\n'); // prettier-ignore
    assert.equal(npx(['index', 'remove', index, `${notes}:2`]).out, '1 removed\n');
    assert.equal(npx(['index', 'list', index]).out, wisp(['index', 'list', index]).out);
    assertFinds(['search', index, ...query]);
    assertFinds(['search', index, ...query, '--top', '1', '--format', 'text']);
  });

  test('generate writes the texts of the program', () => {
    for (const args of [
      ['--text', 'Once upon a time', '-n', '12'],
      ['--text', 'Once', '-n', '6', '--json'],
      ['--text', 'Tim had a pet.', '-n', '20', '--json-schema', at('schema.json')],
    ]) {
      writeFileSync(at('schema.json'), '{"enum":["cat","dog"]}');
      const all = ['generate', '--compute', 'f32', ...args];
      const [own, program] = [npx(all), wisp(all)];
      assert.deepEqual([own.code, own.err, own.out], [0, '', program.out]);
    }
    const chat = ['generate', '--chat', '--chat-format', 'plain', '-n', '5', '--compute', 'f32'];
    assert.equal(npx(chat, 'Once\n/help\nOne day\n').out, wisp(chat, 'Once\n/help\nOne day\n').out);
  });

  test('a model at a URL is refused, and the line to write is named', () => {
    const run = npx(['tokenize', '-m', 'https://127.0.0.1/m.gguf?token=x', '--text', 'a']);
    assert.equal(run.code, 3);
    assert.match(run.err, /^wisp: .*reads no URLs; wisp-engine convert URL FILE/);
    assert.doesNotMatch(run.err, /token=x/);
  });

  test('where the end of a pipe is an error, as on Windows, the input ends there', () => {
    const stub = at('windows.mjs');
    writeFileSync(
      stub,
      `import fs from 'node:fs';
      const { readSync } = fs;
      fs.readSync = (file, ...more) => {
        const read = readSync(file, ...more);
        if (read > 0 || file !== 0) return read;
        throw Object.assign(new Error('EOF: end of file, read'), { code: 'EOF' });
      };`,
    );
    const run = npx(['tokenize'], lines, {}, ['--import', pathToFileURL(stub).href]);
    assert.deepEqual([run.code, run.err, run.out], [0, '', wisp(['tokenize'], lines).out]);
  });
});

describe('what goes wrong has the exit code and the words of wisp', () => {
  const out = at('none.gguf');
  /** @type {[string, string[]][]} */
  const cases = [
    ['no arguments', ['calibrate']],
    ['a wrong share', ['calibrate', MODEL, '--data', 'a', '-o', out, '--hot', '2']],
    ['no texts', ['calibrate', MODEL, '--data', '/nowhere', '-o', out]],
    ['no folder for the output', ['calibrate', MODEL, ...FIT, '-o', '/nowhere/out.gguf']],
    ['too few texts', ['calibrate', MODEL, ...FIT, '-o', out]],
    ['no model', ['calibrate', '/nowhere', ...FIT, '-o', out]],
    ['no GGUF file', ['quantize', '--type', 'q8_0', CLI, out]],
    ['a device', ['quantize', '--type', 'q8_0', MODEL, '/dev/null']],
    ['a folder', ['quantize', '--type', 'q8_0', MODEL, folder]],
    ['an unknown type', ['quantize', '--type', 'q9', MODEL, out]],
    ['help', ['calibrate', '--help']],
    ['the other help', ['quantize', '-h']],
  ];
  for (const [name, args] of cases) {
    test(name, () => {
      const run = npx(args, 'one\n');
      const program = wisp(args, 'one\n');
      assert.deepEqual([run.code, run.err, run.out], [program.code, program.err, program.out]);
      assert.ok(!existsSync(out));
    });
  }

  test('an unknown option', () => {
    const run = npx(['quantize', '--nope']);
    assert.equal(run.code, 2);
    assert.match(run.err, /^wisp: unrecognized option.*nope/);
  });

  test('the input is the output', () => {
    const both = at('both');
    writeFileSync(both, 'one\n');
    const args = ['calibrate', MODEL, '--data', both, '-o', out];
    const stdio = /** @type {const} */ (['ignore', openSync(both, 'a'), 'pipe']);
    const run = spawnSync(process.execPath, [CLI, ...args], { stdio: [...stdio] });
    assert.equal(run.status, 1);
    assert.match(String(run.stderr), /^wisp: .*both: the input is the output, too\n$/);
    assert.equal(readFileSync(both, 'utf8'), 'one\n');
  });

  test('a model that does not fit in the memory of a module', () => {
    const limit = ['--wasm-max-mem-pages=400'];
    const args = ['calibrate', DEFAULT_MODEL_PATH, ...FIT, '-o', out];
    const run = npx(args, TEXTS, {}, limit);
    assert.deepEqual([run.code, run.out], [1, '']);
    assert.match(run.err, /^wisp: .*out of memory: \d+ bytes were needed\n$/);
    assert.ok(!existsSync(out));
    const none = npx(['quantize', '--help'], '', {}, ['--wasm-max-mem-pages=10']);
    assert.deepEqual([none.code, none.out], [1, '']);
    assert.match(none.err, /^wisp-engine: .*memory/);
  });

  test('a disk without room', { skip: process.platform !== 'linux' && 'no /dev/full' }, () => {
    const run = spawnSync(process.execPath, [CLI, 'quantize', '--help'], {
      stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
    });
    assert.equal(run.status, 1);
    assert.match(String(run.stderr), /^wisp: cannot write the output: No space left on device\n$/);
  });

  test('a reader that closes the output: 141, and nothing is said', async () => {
    const child = spawn(process.execPath, [CLI, 'quantize', '--help']);
    let said = '';
    child.stderr.on('data', (bytes) => (said += bytes));
    child.stdout.destroy();
    assert.deepEqual(await once(child, 'close'), [141, null]);
    assert.equal(said, '');
  });
});

describe('signals', () => {
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    test(`${signal} while it writes: 130, and neither a file nor a part of it`, async () => {
      const place = at(signal);
      mkdirSync(place);
      // In WebAssembly this takes seconds.
      const args = ['quantize', '--type', 'iq4_nl', DEFAULT_MODEL_PATH, join(place, 'out.gguf')];
      const child = spawn(process.execPath, [CLI, ...args]);
      await until(() => readdirSync(place).length > 0, 'it writes nothing');
      child.kill(signal);
      assert.deepEqual(await once(child, 'exit'), [130, null]);
      assert.deepEqual(readdirSync(place), []);
    });

    for (const env of noAddon ? [{}] : [{}, native]) {
      const name = env === native ? 'the native program' : 'WebAssembly';
      test(`${signal} while ${name} waits for texts: 130`, async () => {
        const output = at('waiting.gguf');
        const args = ['calibrate', MODEL, ...FIT, '-o', output];
        const child = spawn(process.execPath, [CLI, ...args], { env: { ...process.env, ...env } });
        // It has read most of this when all of it is written.
        await new Promise((resolve) => child.stdin.write('one\n'.repeat(1e6), resolve));
        child.kill(signal);
        assert.deepEqual(await once(child, 'exit'), [130, null]);
        assert.ok(!existsSync(output));
      });
    }
  }
});

describe('with the native program', { skip: noAddon }, () => {
  test('commands without a model take those of the package', () => {
    const args = ['tokenize', '--text', 'find the water'];
    const run = npx(args, '', native);
    assert.deepEqual([run.code, run.err, run.out], [0, '', wisp(args).out]);
    const json = npx(['eval', 'ppl', '--json'], 'One day a cat sat down.\n', native);
    assert.equal(json.code, 0, json.err);
  });

  test('both commands write its bytes and say what it says', () => {
    const [own, expected] = [at('native.gguf'), at('native-expected.gguf')];
    const calibrate = ['calibrate', MODEL, ...FIT, '--hot', '0.5', '--hot-tokens', '60', '-o'];
    const run = npx([...calibrate, own], TEXTS, native);
    const program = wisp([...calibrate, expected], TEXTS);
    assert.deepEqual([run.code, run.err], [0, '']);
    assert.equal(withoutTime(run.out), withoutTime(program.out));
    assertSame(own, expected);
    const quantize = ['quantize', '--type', 'q8_0', '--fallback', 'f16', MODEL];
    assert.equal(npx([...quantize, own], '', native).out, wisp([...quantize, expected]).out);
    assertSame(own, expected);
  });

  test('exit codes are its own', () => {
    assert.equal(npx(['calibrate'], '', native).code, 2);
    const run = npx(['quantize', '--type', 'q8_0', '/nowhere', at('x.gguf')], '', native);
    assert.equal(run.code, 3);
    assert.match(run.err, /^wisp: \/nowhere: cannot open/);
  });
});
