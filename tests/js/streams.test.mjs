// SPDX-License-Identifier: Apache-2.0
// The streams, files and signals of the program wisp.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  closeSync,
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
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { DEFAULT_MODEL_PATH, PROGRAM, ROOT, start, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-streams-'));
after(() => rmSync(folder, { recursive: true }));

const model = `${ROOT}tests/data/models/prompted`;
const env = { ...process.env, WISP_MODEL: model, wisp: PROGRAM, dir: folder };
/** A run that hangs is ended, and fails its test. */
const LIMIT = { timeout: 120_000 };

/**
 * Runs a shell script, in which $wisp is the program and $dir the folder of these tests.
 * @param {string} script
 */
function shell(script) {
  const run = spawnSync('sh', ['-c', script], { env, ...LIMIT });
  if (run.error) throw run.error;
  return { code: run.status, out: run.stdout.toString(), err: run.stderr.toString() };
}

/** @param {string} name */
const pathOf = (name) => join(folder, name);

/** @param {string[]} texts */
const npyOf = (...texts) =>
  wisp(['embed', '--format', 'npy', '-m', model], texts.join('\n'), {}).bytes;

describe('npy into a file', () => {
  const embed = '"$wisp" embed --format npy';

  test('begins where the output stands', () => {
    const path = pathOf('offset.npy');
    const { code } = shell(
      `(printf head; printf 'a\\nb' | ${embed}; ${embed} --text c; printf tail) > "$dir/offset.npy"`,
    );
    assert.equal(code, 0);
    const parts = [Buffer.from('head'), npyOf('a', 'b'), npyOf('c'), Buffer.from('tail')];
    assert.deepEqual(readFileSync(path), Buffer.concat(parts));
  });

  test('keeps the rest of a file that is overwritten in place', () => {
    const path = pathOf('inside.npy');
    const long = Buffer.alloc(10_000, 'x');
    writeFileSync(path, long);
    assert.equal(shell(`${embed} --text a 1<> "$dir/inside.npy"`).code, 0);
    const expected = npyOf('a');
    assert.deepEqual(readFileSync(path), Buffer.concat([expected, long.subarray(expected.length)]));
  });

  test('appends, and several runs at once append one after the other', () => {
    const path = pathOf('appended.npy');
    writeFileSync(path, 'before');
    const { code } = shell(
      `{ ${embed} --text a & ${embed} --text b & wait; ${embed} --text c; } >> "$dir/appended.npy"`,
    );
    assert.equal(code, 0);
    const [a, b, c] = ['a', 'b', 'c'].map((text) => npyOf(text));
    const expected = [
      [a, b, c],
      [b, a, c],
    ].map((all) => Buffer.concat([Buffer.from('before'), ...all]).toString('hex'));
    assert.ok(expected.includes(readFileSync(path).toString('hex')));
  });

  /** Starts a run that has written the header and waits for texts. @param {string} name */
  async function startRun(name) {
    const output = openSync(pathOf(name), 'w');
    const child = spawn(PROGRAM, ['embed', '--format', 'npy'], {
      env,
      stdio: ['pipe', output, 'pipe'],
    });
    while (statSync(pathOf(name)).size < 128) {
      assert.equal(child.exitCode, null, 'the program has ended');
      await delay(5);
    }
    return { child, output };
  }

  test('a second run on the same file is refused, and the first is whole', async () => {
    const { child, output } = await startRun('shared.npy');
    const { code, err } = shell(`${embed} --text b 1<> "$dir/shared.npy"`);
    assert.equal(code, 1);
    assert.match(err, /another run of wisp/);
    child.stdin?.end('a');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
    assert.deepEqual(readFileSync(pathOf('shared.npy')), npyOf('a'));
    closeSync(output);
  });

  test('another program that writes between is noticed', async () => {
    const { child, output } = await startRun('disturbed.npy');
    writeSync(output, 'in between');
    let err = '';
    child.stderr?.on('data', (chunk) => (err += chunk));
    child.stdin?.end('a');
    assert.deepEqual(await once(child, 'close'), [1, null]);
    assert.match(err, /another program wrote/);
    closeSync(output);
  });
});

describe('streams that are closed, full or slow', () => {
  const npy = '--format npy';

  test('closed standard input is an error, and only for those who read it', () => {
    const { code, err } = shell('exec "$wisp" embed <&-');
    assert.equal(code, 1);
    assert.match(err, /-: cannot read: /);
    const { code: unused, out } = shell('exec "$wisp" tokenize --text a <&-');
    assert.equal(unused, 0);
    assert.match(out, /^\[/);
  });

  test('closed standard output is an error, whatever else is closed', () => {
    for (const command of ['embed', `embed ${npy}`, 'tokenize', 'similarity -q a', '--version']) {
      const text = command === '--version' ? '' : '--text a';
      for (const closed of ['>&-', '<&- >&-', '<&- >&- 2>&-', '>&- 2>&-'])
        assert.equal(shell(`exec "$wisp" ${command} ${text} ${closed}`).code, 1, command + closed);
    }
    assert.equal(shell('exec "$wisp" inspect "$WISP_MODEL" <&- >&- 2>&-').code, 1);
  });

  test('closed standard error changes nothing', () => {
    assert.match(shell('exec "$wisp" tokenize --text a 2>&-').out, /^\[/);
    assert.equal(shell('exec "$wisp" frobnicate 2>&-').code, 2);
  });

  test('a full device is an error of every command', () => {
    const commands = [
      '--version',
      '--help',
      'embed --help',
      'eval --help',
      'tokenize --text a',
      `embed --text a`,
      `embed --text a ${npy}`,
      'similarity -q a --text a',
      'inspect "$WISP_MODEL"',
    ];
    for (const command of commands) {
      const { code, err } = shell(`exec "$wisp" ${command} > /dev/full`);
      assert.equal(code, 1, command);
      assert.match(err, /^wisp: cannot write the output: No space left on device\n$/);
    }
  });

  test('output that does not block is waited for', () => {
    /* The reader reads only when the pipe is full, so that the program meets EAGAIN. */
    const reader = `
import os, select, subprocess, sys, time
r, w = os.pipe()
os.set_blocking(w, False)
child = subprocess.Popen(sys.argv[1:], stdout=w)
while child.poll() is None and select.select([], [w], [], 0)[1]:
    time.sleep(0.001)
os.close(w)
data = b''.join(iter(lambda: os.read(r, 1 << 16), b''))
sys.stdout.buffer.write(data)
sys.exit(child.wait())
`;
    const args = ['embed', '--format', 'f32', '-m', model, pathOf('many.txt')];
    writeFileSync(pathOf('many.txt'), 'a\n'.repeat(2000));
    const run = spawnSync('python3', ['-c', reader, PROGRAM, ...args], {
      maxBuffer: 1 << 28,
      ...LIMIT,
    });
    assert.equal(run.stderr.toString(), '');
    assert.equal(run.status, 0);
    assert.deepEqual(run.stdout, wisp(args).bytes);
  });

  test('input that does not block is waited for', () => {
    const writer = `
import os, subprocess, sys
r, w = os.pipe()
os.set_blocking(r, False)
child = subprocess.Popen(sys.argv[1:], stdin=r, stdout=subprocess.PIPE)
os.write(w, b'a\\n')
child.stdout.readline()
os.write(w, b'b')
os.close(w)
sys.exit(child.wait())
`;
    const run = spawnSync('python3', ['-c', writer, PROGRAM, 'tokenize', '-m', model], LIMIT);
    assert.equal(run.stderr.toString(), '');
    assert.equal(run.status, 0);
  });
});

describe('files that meet each other', () => {
  test('a file is not embedded into itself', () => {
    for (const input of ['"$dir/self.txt"', '< "$dir/self.txt"']) {
      writeFileSync(pathOf('self.txt'), 'a\n');
      for (const command of ['embed', 'tokenize']) {
        const { code, err } = shell(`exec "$wisp" ${command} ${input} >> "$dir/self.txt"`);
        assert.equal(code, 1);
        assert.match(err, /the input is the output, too/);
      }
      assert.equal(readFileSync(pathOf('self.txt'), 'utf8'), 'a\n');
    }
  });

  test('an output that is not a regular file is refused and stays', () => {
    for (const output of ['/dev/stdout', '/dev/null']) {
      const before = lstatSync(output);
      for (const command of [
        `convert "$WISP_MODEL" ${output}`,
        `embed --text a --trace ${output}`,
        `calibrate "$WISP_MODEL" --data /dev/null -o ${output}`,
        `calibrate "$WISP_MODEL" --data /dev/null -o "$dir/x.gguf" --report ${output}/x`,
      ]) {
        assert.equal(shell(`"$wisp" ${command} | cat > "$dir/out"; exit 1`).code, 1);
        assert.equal(shell(`"$wisp" ${command}`).code, 1, command);
      }
      assert.equal(lstatSync(output).ino, before.ino);
      assert.equal(lstatSync(output).mode, before.mode);
    }
  });

  test('the standard output is not replaced by another file', () => {
    for (const [command, name] of [
      ['embed --text a --trace', '/dev/stdout'],
      ['embed --text a --trace', '"$dir/out.txt"'],
      ['convert "$WISP_MODEL"', '/dev/stdout'],
    ]) {
      const { code, err } = shell(`"$wisp" ${command} ${name} > "$dir/out.txt"`);
      assert.equal(code, 1);
      assert.match(err, /is the standard output, too/);
      assert.equal(statSync(pathOf('out.txt')).size, 0);
    }
  });

  test('a linked output stays a link', () => {
    mkdirSync(pathOf('there'));
    for (const [command, name] of [
      ['convert "$WISP_MODEL"', 'x.gguf'],
      ['embed --text a --trace', 'x.json'],
    ]) {
      writeFileSync(pathOf(`there/${name}`), '');
      symlinkSync(`there/${name}`, pathOf(name));
      assert.equal(shell(`"$wisp" ${command} "$dir/${name}" > "$dir/out.txt"`).code, 0);
      assert.ok(lstatSync(pathOf(name)).isSymbolicLink());
      assert.ok(statSync(pathOf(`there/${name}`)).size > 100);
    }
  });

  test('outputs are looked at before inputs', async () => {
    for (const command of [
      'convert /no/model "$dir/no/x"',
      'calibrate /no/model --data - -o "$dir/no/x"',
      'calibrate /no/model --data - -o "$dir/x" --report "$dir/no/x"',
      'embed --trace "$dir/no/x"',
    ]) {
      const child = spawn('sh', ['-c', `exec "$wisp" ${command}`], { env });
      let err = '';
      child.stderr.on('data', (chunk) => (err += chunk));
      const [code] = await once(child, 'close'); /* its standard input is still open */
      assert.equal(code, 1, command);
      assert.match(err, /\/no\/x\S*: cannot write to its folder: No such file or directory\n$/);
    }
    assert.ok(!existsSync(pathOf('x')));
  });
});

describe('signals', () => {
  /** @param {string} name */
  const listing = (name) => readdirSync(pathOf(name)).filter((file) => file.endsWith('.tmp'));

  test('the loss of the terminal is an interruption', async () => {
    const child = start(['embed', '--format', 'ndjson']);
    child.stdin.write('one\n');
    await once(child.stdout, 'data');
    child.kill('SIGHUP');
    assert.deepEqual(await once(child, 'exit'), [130, null]);
  });

  test('nohup is respected', async () => {
    const script = 'trap "" HUP; exec "$wisp" embed --format ndjson';
    const child = spawn('sh', ['-c', script], { env });
    child.stdin.write('one\n');
    await once(child.stdout, 'data');
    child.kill('SIGHUP');
    child.stdin.end('two\n');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  });

  test('neither of them leaves a temporary file', async () => {
    mkdirSync(pathOf('hup'));
    const args = ['convert', '--type', 'f32', DEFAULT_MODEL_PATH, pathOf('hup/x.gguf')];
    for (const signal of /** @type {const} */ (['SIGHUP', 'SIGTERM', 'SIGINT'])) {
      const child = spawn(PROGRAM, args);
      const exit = once(child, 'exit');
      while (child.exitCode === null && listing('hup').length === 0) await delay(0);
      child.kill(signal);
      const [code, killed] = await exit;
      assert.equal(killed, null);
      assert.ok(code === 130 || code === 0, `${code}`);
      assert.deepEqual(listing('hup'), []);
      assert.equal(existsSync(pathOf('hup/x.gguf')), code === 0);
      rmSync(pathOf('hup/x.gguf'), { force: true });
    }
  });

  test('a file over the limit is an error and leaves nothing', () => {
    mkdirSync(pathOf('xfsz'));
    const limit = 'ulimit -f 8; exec "$wisp"';
    const { code, err } = shell(`${limit} convert "$WISP_MODEL" "$dir/xfsz/x.gguf"`);
    assert.equal(code, 1);
    assert.match(err, /x\.gguf: cannot write: File too large/);
    assert.deepEqual(readdirSync(pathOf('xfsz')), []);
    appendFileSync(pathOf('lines.txt'), 'a\n'.repeat(1000));
    for (const format of ['text', 'npy']) {
      const command = `embed --format ${format} "$dir/lines.txt" > "$dir/rows"`;
      const embedded = shell(`${limit} ${command}`);
      assert.equal(embedded.code, 1);
      assert.match(embedded.err, /cannot write the output: File too large\n$/);
    }
  });
});
