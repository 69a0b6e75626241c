// SPDX-License-Identifier: Apache-2.0
// The program wisp as a user runs it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { shortTexts } from './pool/texts.mjs';
import { DEFAULT_MODEL_PATH, PROGRAM, ROOT, floatsOf, smallColdModel, start, wisp } from './support.mjs'; // prettier-ignore

const SIZE = 384;
const folder = mkdtempSync(join(tmpdir(), 'wisp-cli-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {string} [input] */
const rowsOf = (args, input) => floatsOf(wisp(['embed', '--format', 'f32', ...args], input).bytes);

describe('embed', () => {
  const expected = rowsOf([], 'one\ntwo\n\nfour');

  test('gives one row a line, the last without a newline and empty ones included', () => {
    assert.equal(expected.length, 4 * SIZE);
  });

  test('text: nine digits bring back the same floats', () => {
    const { out } = wisp(['embed'], 'one\ntwo\n\nfour');
    const rows = out.trimEnd().split('\n');
    assert.equal(rows.length, 4);
    assert.deepEqual(Float32Array.from(rows.join(' ').split(' '), Number), expected);
  });

  describe('--memory', { skip: process.platform !== 'linux' && 'reads /proc' }, () => {
    /** The most memory, in kB, that embedding `lines` takes. @param {string[]} lines @param {string[]} args */
    const peak = async (lines, ...args) => {
      const child = start(['embed', '--format', 'f32', '--cold', 'wait', ...args]);
      let left = 4 * SIZE * lines.length;
      child.stdin.write(`${lines.join('\n')}\n`);
      for await (const bytes of child.stdout) if ((left -= bytes.length) === 0) break;
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      child.kill();
      return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]);
    };
    const { err } = wisp(['embed', '--cold', 'wait', '--memory', '1', '--text', 'a']);
    const least = /** @type {string} */ (/(\d+) bytes are always/.exec(err)?.[1]);

    test('takes no more memory, when many threads free weights', async () => {
      const lines = Array.from({ length: 400 }, (_, i) => `Sentence ${i} of many, each short.`);
      const all = await peak(lines, '-t', '8');
      const limited = await peak(lines, '-t', '8', '--memory', least);
      assert.ok(limited < 1.2 * all, `${limited} kB, without a limit ${all}`);
    });

    test('opens the default model within 20 % of its bytes, and never holds all of it', async () => {
      const { size } = statSync(DEFAULT_MODEL_PATH);
      assert.ok(Number(least) < 0.2 * size, `${least} of ${size} bytes`);
      const all = await peak(['one text'], '-t', '1');
      const limited = await peak(['one text'], '-t', '1', '--memory', least);
      /* Layers have 11.4 of its 19.4 MB, and one matrix of them is in memory at a time. */
      assert.ok(limited < all - 8000, `${limited} kB, without a limit ${all}`);
    });

    test('gives the same bits', () => {
      const lines = Array.from({ length: 300 }, (_, i) => `Line ${i} of ${i % 7} kinds.`).join(
        '\n',
      );
      const whole = wisp(['embed', '--format', 'f32'], lines).bytes;
      for (const memory of [least, `${Math.floor(0.3 * statSync(DEFAULT_MODEL_PATH).size)}`])
        for (const threads of ['1', '3']) {
          const args = ['embed', '--format', 'f32', '--cold', 'wait', '-t', threads];
          assert.deepEqual(wisp([...args, '--memory', memory], lines).bytes, whole);
        }
    });
  });

  test('json: one array of arrays', () => {
    const { out } = wisp(['embed', '--format', 'json'], 'one\ntwo\n\nfour');
    assert.deepEqual(Float32Array.from(JSON.parse(out).flat()), expected);
  });

  test('json of no input is an empty array', () => {
    assert.deepEqual(JSON.parse(wisp(['embed', '--format', 'json'], '').out), []);
  });

  test('npy into a file and into a pipe', () => {
    const path = join(folder, 'rows.npy');
    const run = spawnSync(PROGRAM, ['embed', '--format', 'npy'], {
      input: 'one\ntwo\n\nfour',
      env: { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH },
      stdio: ['pipe', openSync(path, 'w'), 'inherit'],
    });
    assert.equal(run.status, 0);
    const piped = wisp(['embed', '--format', 'npy'], 'one\ntwo\n\nfour').bytes;
    assert.deepEqual(readFileSync(path), piped);
    const header = piped.subarray(10, 128).toString();
    assert.equal(piped.subarray(0, 6).toString('latin1'), '\x93NUMPY');
    assert.match(header, /'descr': '<f4', 'fortran_order': False, 'shape': \(4, 384\)/);
    assert.deepEqual(floatsOf(piped.subarray(128)), expected);
  });

  test('ndjson: strings and objects in, other fields kept as they stood', () => {
    const input =
      '"one"\n{"id": 7, "text": "two", "tags": ["a", {"b": 1.50}], "\\u00e9\\"": null}\n' +
      '{"text":""}\n"fo\\u0075r"\n';
    const { out, code } = wisp(['embed', '--input', 'ndjson', '--format', 'ndjson'], input);
    assert.equal(code, 0);
    const records = out.trimEnd().split('\n');
    assert.equal(records.length, 4);
    assert.ok(records[1].startsWith('{"id": 7,"tags": ["a", {"b": 1.50}],"\\u00e9\\"": null,'));
    const parsed = records.map((line) => JSON.parse(line));
    assert.deepEqual(Object.keys(parsed[0]), ['embedding']);
    assert.deepEqual(Object.keys(parsed[1]), ['id', 'tags', 'é"', 'embedding']);
    assert.deepEqual(Float32Array.from(parsed.flatMap((r) => r.embedding)), expected);
  });

  test('a malformed line: what came before it is written, and the line is named', () => {
    const { out, err, code } = wisp(
      ['embed', '--input', 'ndjson', '--format', 'ndjson'],
      '"one"\n"two"\n{"text": 3}\n"four"\n',
    );
    assert.equal(code, 4);
    assert.equal(out.trimEnd().split('\n').length, 2);
    assert.match(err, /line 3/);
    const { err: cut } = wisp(['embed', '--input', 'ndjson'], '\n{"text"');
    assert.match(cut, /^wisp: -: line 2, column 8: [^:]+\n$/);
  });

  test('ndjson: blank lines and a byte order mark are skipped', () => {
    const input =
      '\ufeff"one"\n\n \t\r\n{"text":"two"}\r\n' + '\n'.repeat(2 << 20) + '""\n"four"\n\n';
    assert.deepEqual(rowsOf(['--input', 'ndjson'], input), expected);
    assert.equal(rowsOf(['--input', 'ndjson'], '\ufeff\n\n').length, 0);
    const { err, code } = wisp(['embed', '--input', 'ndjson'], '"a"\n\n\n7\n');
    assert.equal(code, 4);
    assert.match(err, /line 4: neither a JSON string nor/);
  });

  test('lines: a byte order mark is not a text', () => {
    assert.deepEqual(rowsOf([], '\ufeffone\ntwo\n\nfour'), expected);
    assert.equal(rowsOf([], '\ufeff').length, 0);
    assert.equal(rowsOf([], '\ufeff\n').length, SIZE);
  });

  test('ndjson: an embedding in the input is replaced', () => {
    const input = '{"embedding": [1], "text": "one", "id": 1, "embedd\\u0069ng2": 2}\n';
    const { out } = wisp(['embed', '--input', 'ndjson', '--format', 'ndjson'], input);
    assert.equal(out.split('embedding"').length, 2);
    const { embedding, id } = JSON.parse(out);
    assert.equal(id, 1);
    assert.deepEqual(Float32Array.from(embedding), expected.subarray(0, SIZE));
  });

  test('texts, files and standard input mix in order', () => {
    const path = join(folder, 'two.txt');
    writeFileSync(path, 'two\r\n\n');
    const rows = rowsOf(['--text', 'one', path, '--text', 'four']);
    assert.deepEqual(rows, expected);
    assert.deepEqual(rowsOf(['--text', 'one', '-', '--text', 'four'], 'two\n\n'), expected);
  });

  test('threads, kernels and compute modes', () => {
    assert.deepEqual(rowsOf(['--threads', '3'], 'one\ntwo\n\nfour'), expected);
    const sets = /kernel sets: (.*) \(/.exec(wisp(['--version']).out)?.[1].split(', ') ?? [];
    assert.ok(sets.includes('scalar'));
    for (const set of sets) {
      const rows = rowsOf(['--cpu', set, '--compute', 'f32'], 'one\ntwo');
      assert.equal(rows.length, 2 * SIZE);
    }
  });

  test('--dimensions keeps the first values, normalised again', () => {
    const rows = rowsOf(['--dimensions', '64', '--text', 'one']);
    assert.equal(rows.length, 64);
    const length = Math.hypot(...expected.subarray(0, 64));
    rows.forEach((value, i) => assert.ok(Math.abs(value - expected[i] / length) < 1e-6));
  });

  test('--prompt-text stands before each text', () => {
    assert.deepEqual(
      rowsOf(['--prompt-text', 'query: ', '--text', 'one']),
      rowsOf(['--text', 'query: one']),
    );
  });

  test('10,000 lines come out in order', () => {
    const lines = Array.from({ length: 10000 }, (_, i) => `line ${i % 7}`);
    const rows = rowsOf([], lines.join('\n'));
    const seven = rowsOf([], lines.slice(0, 7).join('\n'));
    assert.equal(rows.length, 10000 * SIZE);
    for (let i = 0; i < 10000; i++) assert.equal(rows[i * SIZE], seven[(i % 7) * SIZE], `row ${i}`);
  });

  test('answers a line before the next one comes', async () => {
    const child = start(['embed', '--format', 'ndjson']);
    for (const line of ['one\n', 'two\n']) {
      child.stdin.write(line);
      const [chunk] = await once(child.stdout, 'data');
      assert.ok(chunk.length > 0);
    }
    child.stdin.end();
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });

  test('a reader that leaves ends it quietly', () => {
    const run = spawnSync('sh', ['-c', `yes hello | "${PROGRAM}" embed | head -n 1; true`], {
      env: { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH },
    });
    assert.equal(run.stderr.toString(), '');
    assert.equal(run.stdout.toString().trim().split(' ').length, SIZE);
    const script = `(yes hello | "${PROGRAM}" embed; echo $? >&2) | head -n 1 > /dev/null`;
    const code = spawnSync('sh', ['-c', script], {
      env: { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH },
    });
    assert.equal(code.stderr.toString().trim(), '141');
  });

  test('Ctrl-C ends it with 130 and whole records', async () => {
    const child = start(['embed', '--format', 'ndjson']);
    let out = '';
    child.stdout.on('data', (chunk) => (out += chunk));
    child.stdin.on('error', () => {});
    const feed = setInterval(() => child.stdin.write('some words to embed\n'.repeat(200)), 5);
    await once(child.stdout, 'data');
    child.kill('SIGINT');
    const [code] = await once(child, 'close');
    clearInterval(feed);
    assert.equal(code, 130);
    assert.ok(out.endsWith('\n'));
    out
      .trimEnd()
      .split('\n')
      .forEach((line) => JSON.parse(line));
  });

  test('Ctrl-C while it waits for input', async () => {
    const child = start(['embed', '--format', 'ndjson']);
    child.stdin.write('one\n');
    await once(child.stdout, 'data');
    child.kill('SIGINT');
    const [code] = await once(child, 'exit');
    assert.equal(code, 130);
  });

  test('--stats counts on stderr', () => {
    const { err } = wisp(['embed', '--stats', '--text', 'one two', '--text', 'three']);
    assert.match(err, /^2 texts \(0 truncated\), 7 tokens/);
    assert.match(err, /^ffn_up +\d+\.\d{3} s +\d+\.\d %$/m);
  });

  test('--stats and --trace say what cold neurons were read, and how long texts waited', () => {
    const file = join(folder, 'cold-trace.json');
    const options = ['-m', smallColdModel(), '--cold', 'wait', '--threads', '1', '--stats'];
    const { code, err } = wisp(['embed', ...options, '--trace', file, '--text', shortTexts(1, 3)[0]]); // prettier-ignore
    assert.equal(code, 0);
    const { traceEvents, otherData } = JSON.parse(readFileSync(file, 'utf8'));
    const { cold } = otherData;
    const found = /(\d+) hits, (\d+) misses, (\d+) evictions of 64; (\d+) reads, (\d+) bytes read; (\d+) neurons were read along with others \((\d+) were used later, (\d+) evicted unused\)/.exec(err); // prettier-ignore
    const names = ['hits', 'misses', 'evictions', 'reads', 'readBytes', 'prefetched', 'prefetchedUsed', 'prefetchedWasted']; // prettier-ignore
    assert.deepEqual(
      names.map((name) => cold[name]),
      found?.slice(1).map(Number),
    );
    assert.ok(cold.misses > 0 && cold.reads > 0 && cold.prefetched > 0);
    assert.ok(cold.hotBytes > 0 && cold.warmBytes > 0 && cold.warmBytes <= cold.coldBytes);
    // A text waits at most once for tokens, and once in each layer; then the layer goes on.
    const waits = traceEvents.filter((/** @type {any} */ { name }) => name === 'wait');
    assert.ok(waits.length > 0);
    for (const { dur, args } of waits) assert.ok(dur >= 0 && (args?.layer ?? 0) >= 0);
    const waited = waits.reduce((/** @type {number} */ sum, /** @type {any} */ { dur }) => sum + dur, 0); // prettier-ignore
    // A text computes nothing again that it computed before it waited.
    const whole = join(folder, 'whole-trace.json');
    wisp(['embed', ...options.slice(0, 2), '--predictor', 'lowrank', '--threads', '1', '--trace', whole, '--text', shortTexts(1, 3)[0]]); // prettier-ignore
    const stages = (/** @type {any[]} */ events) =>
      events
        .filter(({ ph, name }) => ph === 'X' && !/^(load|wait|ffn_sparse)$/.test(name))
        .map(({ name, args }) => `${name} ${args?.layer}`);
    assert.deepEqual(stages(traceEvents), stages(JSON.parse(readFileSync(whole, 'utf8')).traceEvents)); // prettier-ignore
    const [, seconds] = /^wait +(\d+\.\d{3}) s/m.exec(err) ?? [];
    assert.ok(Math.abs(waited / 1e6 - Number(seconds)) < 0.001);
  });

  test('--trace writes the stages as Chrome trace events', () => {
    const file = join(folder, 'trace.json');
    const options = ['--predictor', 'dense', '--threads', '2', '--text', 'one two'];
    const { code } = wisp(['embed', '--trace', file, ...options]);
    assert.equal(code, 0);
    /** @type {{ ph: string, name: string, ts: number, dur: number, args?: { layer: number } }[]} */
    const events = JSON.parse(readFileSync(file, 'utf8')).traceEvents;
    const spans = events.filter(({ ph }) => ph === 'X');
    assert.deepEqual(
      spans.slice(0, 4).map(({ name }) => name),
      ['load', 'tokenize', 'look_up', 'qkv'],
    );
    assert.equal(spans.filter(({ name }) => name === 'attention').length, 6);
    assert.equal(spans.filter(({ name }) => name === 'ffn_down').at(-1)?.args?.layer, 5);
    for (const [i, { ts, dur }] of spans.entries()) {
      assert.ok(dur >= 0 && ts >= (spans[i - 1]?.ts ?? 0));
    }
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).otherData.cold, undefined);
    const { code: refused, err } = wisp(['embed', '--trace', '/nowhere/t.json', '--text', 'x']);
    assert.equal(refused, 1);
    assert.match(err, /\/nowhere\/t\.json/);
  });

  test('the first results come soon: batches begin with four texts, and each is twice as large', () => {
    const file = join(folder, 'batches.json');
    const batches = [4, 5, 12, 13].map((texts) => {
      wisp(['embed', '--trace', file, '--force', '--threads', '1'], 'text\n'.repeat(texts));
      const events = JSON.parse(readFileSync(file, 'utf8')).traceEvents;
      return events.filter((/** @type {{ name: string }} */ { name }) => name === 'tokenize')
        .length;
    });
    assert.deepEqual(batches, [1, 2, 2, 3]);
  });

  test('wrong use is exit code 2 and says what is wrong', () => {
    for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
      [['embed', '--format', 'xml'], /--format xml: choose one of text, json/],
      [['embed', '--input', 'xls'], /--input xls: choose one of lines, ndjson/],
      [['embed', '--compute', 'int4'], /choose one of auto, f32, int8/],
      [['embed', '--threads', '0'], /--threads 0: expected a whole number from 1/],
      [['embed', '--dimensions', '-3'], /whole number/],
      [['embed', '--dimensions', '385', '--text', 'x'], /385.*384/],
      [['quantize', '--sample', ' -5', 'x'], /--sample {2}-5: expected a whole number from 0/],
      [['embed', '--nonsense'], /nonsense/],
      [['embed', '--cpu', 'abacus', '--text', 'x'], /--cpu abacus: choose one of .*scalar/],
      [['embed', '--sparsity', '1e-60'], /above 0 and below 1/],
      [['embed', '--sparsity', '0.9999999999'], /above 0 and below 1/],
      [['embed', '-m', '', '--text', 'x'], /--model: the path is empty/],
      [['embed', ''], /input: the path is empty/],
      [['inspect', ''], /the path is empty/],
      [['convert', '', 'x.gguf'], /input: the path is empty/],
      [['convert', 'x.gguf', ''], /output: the path is empty/],
      [['frobnicate'], /there is no command frobnicate \(see/],
      [['emebd'], /there is no command emebd; did you mean embed\?/],
      [['help', 'serv'], /there is no command serv; did you mean serve\?/],
      [['embed', '--modle', 'x'], /unrecognized option '--modle'\nwisp: did you mean --model\?\n$/],
      [['embed', '--p', 'x'], /ambiguous[^\n]*\n$/],
      [[], /usage: wisp COMMAND/],
    ])) {
      const { code, err } = wisp(args);
      assert.equal(code, 2, args.join(' '));
      assert.match(err, message);
    }
  });

  test('help is that of the program or of a command', () => {
    for (const args of [['help'], ['--help'], ['-h']]) {
      assert.match(wisp(args).out, /^usage: wisp COMMAND[^]*\n {2}wisp embed {2}/);
    }
    assert.equal(wisp(['help', 'embed']).out, wisp(['embed', '--help']).out);
    assert.equal(wisp(['-V']).out, wisp(['--version']).out);
    const { code, err } = wisp(['embed', 'a text in place of a file']);
    assert.equal(code, 1);
    assert.match(err, /No such file or directory \(--text TEXT gives a text itself\)\n$/);
  });

  test('an option that the model refuses stops the run', () => {
    for (const args of [
      ['embed', '--text', 'x'],
      ['similarity', '-q', 'x', '--text', 'x'],
      ['similarity', '--pairs'],
      ['eval', 'sts'],
    ]) {
      const options = ['--predictor', 'exact', '--sparsity', '0.5'];
      const { code, out, err } = wisp([...args, ...options], 'x\ty\n');
      assert.equal(code, 2, args.join(' '));
      assert.equal(out, '');
      assert.match(
        err,
        /sparsity: the model runs with the predictor exact, which does not skip a share of neurons\n$/,
      );
    }
  });

  test('a model that cannot be used is exit code 3 and named', () => {
    const path = join(folder, 'broken.gguf');
    writeFileSync(path, 'GGUF nothing here');
    for (const model of [path, join(folder, 'absent.gguf'), folder]) {
      const { code, err } = wisp(['embed', '--model', model, '--text', 'x']);
      assert.equal(code, 3);
      assert.ok(err.includes(folder), err);
    }
    const empty = wisp(['embed', '--text', 'x'], '', { WISP_MODEL: '' });
    assert.equal(empty.code, 3);
    assert.match(empty.err, /WISP_MODEL: the path is empty/);
  });

  test('a file of a Hugging Face folder is not a model: the error says what to name', () => {
    const weights = `${ROOT}tests/data/models/overridden/model.safetensors`;
    const { code, err } = wisp(['embed', '--model', weights, '--text', 'x']);
    assert.equal(code, 3);
    assert.match(err, /model\.safetensors: one file of a Hugging Face folder: name the folder/);
    const path = join(folder, 'model.onnx');
    writeFileSync(path, 'onnx');
    assert.match(wisp(['inspect', path]).err, /model\.onnx: one file of a Hugging Face folder/);
  });

  test('a file that cannot be read is exit code 1', () => {
    const { code, err } = wisp(['embed', join(folder, 'no-such.txt')]);
    assert.equal(code, 1);
    assert.match(err, /no-such\.txt: cannot open/);
    assert.equal(wisp(['embed', folder]).code, 1);
  });

  test('a full disk is exit code 1', { skip: process.platform !== 'linux' }, () => {
    const run = spawnSync(PROGRAM, ['embed', '--text', 'x'], {
      env: { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH },
      stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
    });
    assert.equal(run.status, 1);
    assert.match(run.stderr.toString(), /cannot write the output/);
  });
});

describe('other commands', () => {
  test('tokenize', () => {
    const { out } = wisp(['tokenize', '--text', 'Hello, world!', '--text', '']);
    assert.equal(out, '[101,7592,1010,2088,999,102]\n[101,102]\n');
    const ndjson = wisp(['tokenize', '--input', 'ndjson'], '{"text":"Hello, world!"}\n');
    assert.equal(ndjson.out, '[101,7592,1010,2088,999,102]\n');
  });

  test('similarity --query ranks, and keeps the order of equals', () => {
    const { out } = wisp(
      ['similarity', '--query', 'a hungry animal', '--top', '3'],
      'interest rates rose\nthe wolf looked for food\nthe wolf looked for food\nblue paint\n',
    );
    const lines = out.trimEnd().split('\n');
    assert.equal(lines.length, 3);
    assert.match(lines[0], /^0\.\d{4}\tthe wolf looked for food$/);
    assert.equal(lines[0], lines[1]);
  });

  test('similarity --pairs scores', () => {
    const { out } = wisp(['similarity', '--pairs'], 'one\tone\na cat\tquantum physics\n');
    const [same, different] = out.trimEnd().split('\n').map(Number);
    assert.ok(Math.abs(same - 1) < 1e-5);
    assert.ok(different < 0.5);
    assert.equal(wisp(['similarity', '--pairs'], 'no tab here\n').code, 4);
    assert.equal(wisp(['similarity']).code, 2);
  });

  test('every command has help, and --version says what runs', () => {
    for (const command of ['embed', 'tokenize', 'similarity', 'convert', 'quantize', 'inspect']) {
      const { out, code } = wisp([command, '--help']);
      assert.equal(code, 0);
      assert.match(out, new RegExp(`^usage: wisp ${command} `));
      assert.ok(out.split('\n').every((line) => line.length <= 100));
    }
    assert.match(wisp(['--help']).out, /^usage: wisp COMMAND/);
    assert.match(wisp(['--version']).out, /^wisp \d+\.\d+\.\d+ \(.+\)\ncpu features: /);
  });
});
