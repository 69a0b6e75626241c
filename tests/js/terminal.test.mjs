// SPDX-License-Identifier: Apache-2.0
// Tests messages at a terminal, the help texts, and wisp doctor.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { atTerminal as at } from './at-terminal.mjs';
import { PROGRAM, smallModel, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-terminal-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {string} typed */
const atTerminal = (args, typed) => at([PROGRAM, ...args], [typed]);

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
      const help = wisp(['help', name]).out + wisp([String(name), '--help-model']).out;
      for (const [option] of line.matchAll(/--[\w-]+/g))
        assert.match(help, new RegExp(`^ +(-\\w, )?${option}( |$)`, 'm'), line);
    }
  }
});

test('options of a model are listed once, and taken by every command with a model', () => {
  const short = wisp(['embed', '--help']).out;
  assert.match(short, /^ +--help-model +list more options, of the model$/m);
  assert.doesNotMatch(short, /--predictor/);
  const { out, code, err } = wisp(['embed', '--help-model']);
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^ +--predictor NAME +which neurons/m);
  assert.equal(wisp(['search', '--help-model']).out, out);
  assert.equal(wisp(['index', 'list', '--help-model']).out, out);
  for (const command of ['index', 'eval']) assert.equal(wisp([command, '--help-model']).out, out);
  assert.equal(wisp(['convert', '--help-model']).code, 2);
});

test('--quiet leaves results and errors', () => {
  const long = `${'word '.repeat(600)}\n`;
  const args = ['similarity', '--query', 'a'];
  const loud = wisp(args, long);
  assert.match(loud.err, /^wisp: 1 text is longer than the model's 256 tokens and truncated\n$/);
  const quiet = wisp([...args, '--quiet'], long);
  assert.deepEqual([quiet.err, quiet.out, quiet.code], ['', loud.out, 0]);
  assert.doesNotMatch(atTerminal(['tokenize', '--quiet'], 'one text\n\x04').out, /terminal/);
  assert.match(wisp([...args, '--quiet', '-m', 'none.gguf']).err, /^wisp: none\.gguf: /);
});

test('--json prints the result as JSON, in every command that prints one', () => {
  const lines = join(folder, 'lines.txt');
  const index = join(folder, 'lines.index');
  writeFileSync(lines, 'The cat sleeps.\nPlants make sugar from light.\n');
  /** @param {string[]} args @param {string} [input] */
  const json = (args, input) => {
    const { out, code, err } = wisp([...args, '--json'], input);
    assert.equal(code, 0, err);
    return JSON.parse(out);
  };
  assert.deepEqual(json(['index', 'build', index, lines]), { added: 2 });
  assert.equal(json(['index', 'info', index]).count, 2);
  const listed = json(['index', 'list', index]);
  assert.deepEqual(
    listed.map((/** @type {any} */ { metadata }) => metadata.text),
    ['The cat sleeps.', 'Plants make sugar from light.'],
  );
  const [{ matches }] = json(['search', index, '--query', 'food of plants']);
  assert.equal(matches[0].metadata.text, 'Plants make sugar from light.');
  assert.deepEqual(json(['index', 'remove', index, listed[0].id]), { removed: 1 });
  const nearest = json(['similarity', '--query', 'food of plants', lines]);
  assert.equal(nearest[0].text, 'Plants make sugar from light.');
  assert.ok(nearest[0].score > nearest[1].score);
  const scores = json(['similarity', '--pairs'], 'a cat\ta kitten\na cat\ttaxes\n');
  assert.ok(scores.length === 2 && scores[0] > scores[1]);
  const broken = wisp(['similarity', '--pairs', '--json'], 'a cat\ta kitten\nno tab\n');
  assert.deepEqual([broken.code, JSON.parse(broken.out)[1]], [4, null]);
  assert.equal(json(['embed', '--text', 'a', '--dimensions', '2'])[0].length, 2);
  assert.ok(json(['tokenize', '--text', 'a']).length > 0);
  assert.ok(json(['inspect', smallModel()]).tensors.length > 0);
  const told = json(['generate', '--text', 'Once', '-n', '4', '--echo']);
  assert.deepEqual([told.tokens, told.end, told.text.slice(0, 4)], [4, 'length', 'Once']);
  assert.equal(wisp(['generate', '--chat', '--json']).code, 2);
});

test('similarity reads columns', () => {
  const table = 'sku,description\n17,"Waterproof boots, ankle high"\n23,Wool hat\n';
  const args = ['similarity', '--input', 'csv', '--column', 'description'];
  const { out, code } = wisp([...args, '--query', 'shoes that keep water out'], table);
  assert.equal(code, 0);
  assert.match(out, /^0\.\d+\tWaterproof boots, ankle high\n0\.\d+\tWool hat\n$/);
  assert.match(wisp([...args, '--pairs'], table).err, /--pairs takes lines with a tab/);
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
