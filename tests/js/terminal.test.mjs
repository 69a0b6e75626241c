// SPDX-License-Identifier: Apache-2.0
// Tests messages at a terminal, the help texts, and wisp doctor.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { DEFAULT_MODEL_PATH, PROGRAM, smallModel, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-terminal-'));
after(() => rmSync(folder, { recursive: true }));

/** Runs the program at a terminal, at which `typed` is typed. @param {string[]} args @param {string} typed */
function atTerminal(args, typed) {
  const script = `
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
os.write(terminal, ${JSON.stringify(typed)}.encode())
out = b""
try:
    while part := os.read(terminal, 65536):
        out += part
except OSError:
    pass  # Linux says so that the other end is closed
sys.stdout.buffer.write(out)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))`;
  const env = { ...process.env, WISP_MODEL: DEFAULT_MODEL_PATH };
  const run = spawnSync('python3', ['-c', script, PROGRAM, ...args], { env, encoding: 'utf8' });
  return { code: run.status, out: run.stdout, err: run.stderr };
}

test('says that it waits for what is typed', () => {
  const waits = /wisp: reads from the terminal; Ctrl-D at the beginning of a line ends\r\n/;
  const typed = atTerminal(['tokenize'], 'one text\n\x04');
  assert.equal(typed.code, 0, typed.err);
  assert.match(typed.out, waits);
  assert.ok(typed.out.includes(wisp(['tokenize', '--text', 'one text']).out.trim()));
  assert.doesNotMatch(atTerminal(['tokenize', '--text', 'one text'], '').out, waits);
  assert.doesNotMatch(wisp(['tokenize'], 'one text\n').err, /reads from the terminal/);
});

test('bytes are not written to a terminal', () => {
  for (const format of ['npy', 'f32']) {
    const args = ['embed', '-m', smallModel(), '--format', format, '--text', 'a'];
    const refused = atTerminal(args, '');
    assert.equal(refused.code, 2, refused.err);
    assert.match(
      refused.out,
      new RegExp(`^wisp: --format ${format}: bytes are not for a terminal`),
    );
    assert.equal(atTerminal([...args, '--output', join(folder, format)], '').code, 0);
    assert.equal(wisp(args).code, 0);
  }
});

test('each help has examples, of commands and options that there are', () => {
  const commands = [...wisp(['help']).out.matchAll(/^ {2}wisp (\w+) +\w/gm)].map(
    ([, name]) => name,
  );
  assert.ok(commands.includes('pull') && commands.includes('doctor'));
  for (const command of commands) {
    const { out, code } = wisp(['help', command]);
    assert.equal(code, 0);
    const [, examples = ''] = /\nExamples?:\n((?: {2}wisp .*\n)+)/.exec(out) ?? [];
    assert.notEqual(examples, '', command);
    for (const line of examples.trim().split('\n')) {
      const [, name] = /wisp (\w+)/.exec(line) ?? [];
      const help = wisp(['help', name]).out;
      for (const [option] of line.matchAll(/--[\w-]+/g))
        assert.match(help, new RegExp(`^ +(-\\w, )?${option}( |$)`, 'm'), line);
    }
  }
});

test('doctor says what it finds', () => {
  const report = JSON.parse(wisp(['doctor', '--json', '-m', smallModel()]).out);
  assert.ok(report.processors >= 1);
  assert.ok(report.memory > 0 && report.available <= report.memory);
  assert.ok(report.bandwidth_of_1 > 0);
  assert.ok(report.kernel_sets.startsWith(report.used.split(',')[0]));
  assert.equal(report.model, smallModel());
  assert.ok(report.model_bytes > 0 && report.disk > 0);
  assert.ok(Array.isArray(report.advice));
  const home = join(folder, 'home');
  const { out, code } = wisp(['doctor'], '', { HF_HOME: home, WISP_CACHE: home });
  assert.equal(code, 0);
  assert.match(out, new RegExp(`^hub cache +${home}/hub, 0\\.0 MB$`, 'm'));
  assert.match(out, /^url cache +.*\/http, 0\.0 MB$/m);
  const cut = spawnSync('taskset', ['-c', '0', PROGRAM, 'doctor', '--json'], { encoding: 'utf8' });
  if (report.processors > 1 && cut.status === 0) assert.equal(JSON.parse(cut.stdout).threads, 1);
  assert.equal(wisp(['doctor', '-m', join(folder, 'none.gguf')]).code, 3);
  assert.equal(wisp(['doctor', 'x']).code, 2);
});
