// SPDX-License-Identifier: Apache-2.0
// The commands of wisp that write and describe models, as a user runs them.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { DEFAULT_MODEL_PATH, PROGRAM, ROOT, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-cli-models-'));
after(() => rmSync(folder, { recursive: true }));

test('convert and inspect', () => {
  const path = join(folder, 'f16.gguf');
  assert.equal(
    wisp(['convert', '--type', 'f16', '--name', 'renamed "x"', DEFAULT_MODEL_PATH, path]).code,
    0,
  );
  const described = JSON.parse(wisp(['inspect', '--format', 'json', '--sha256', path]).out);
  assert.equal(described.metadata['general.name'], 'renamed "x"');
  assert.equal(described.metadata['bert.block_count'], 6);
  assert.equal(described.files[0].bytes, readFileSync(path).length);
  const digest = spawnSync('sha256sum', [path]).stdout.toString().split(' ')[0];
  assert.equal(described.files[0].sha256, digest);
  const up = described.tensors.find(
    (/** @type {{ name: string }} */ t) => t.name === 'blk.0.ffn_up.weight',
  );
  assert.deepEqual([up.type, up.shape], ['F16', [1536, 384]]);
  assert.match(wisp(['inspect', path]).out, /blk\.0\.ffn_up\.weight +F16 +1536 x 384/);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.endsWith('.tmp')),
    [],
  );
});

test('says what is assumed of a file that does not say it', () => {
  const path = join(folder, 'unsaid.gguf');
  const bytes = readFileSync(DEFAULT_MODEL_PATH);
  bytes.write('gone', bytes.indexOf('wisp.hidden_act'));
  writeFileSync(path, bytes);
  const described = JSON.parse(wisp(['inspect', '--format', 'json', path]).out);
  assert.equal(described.assumed['wisp.hidden_act'], 'gelu');
  assert.match(wisp(['inspect', path]).out, /ASSUMED, .*\n +wisp\.hidden_act +gelu\n/);
  const said = /the file does not say, so wisp assumes: wisp\.hidden_act is gelu\n/;
  assert.match(wisp(['embed', '--verbose', '-m', path, '--text', 'a']).err, said);
  assert.doesNotMatch(wisp(['embed', '-m', path, '--text', 'a']).err, /wisp assumes/);
  const whole = JSON.parse(wisp(['inspect', '--format', 'json', DEFAULT_MODEL_PATH]).out);
  assert.deepEqual(whole.assumed, {});
});

test('converting to the same types changes no bit of the tensors', () => {
  const path = join(folder, 'same.gguf');
  wisp(['convert', DEFAULT_MODEL_PATH, path]);
  assert.ok(readFileSync(path).equals(readFileSync(DEFAULT_MODEL_PATH)));
});

test('convert refuses nonsense', () => {
  const path = join(folder, 'never.gguf');
  assert.equal(wisp(['convert', '--type', 'q3', DEFAULT_MODEL_PATH, path]).code, 2);
  assert.equal(wisp(['convert', DEFAULT_MODEL_PATH]).code, 2);
  assert.equal(wisp(['convert', DEFAULT_MODEL_PATH, join(folder, 'no/such/x.gguf')]).code, 1);
  assert.ok(!readdirSync(folder).includes('never.gguf'));
});

test('quantize writes, measures and refuses', () => {
  const path = join(folder, 'quantised.gguf');
  const refused = wisp(['quantize', '--type', 'q4_k', DEFAULT_MODEL_PATH, path]);
  assert.equal(refused.code, 3);
  assert.match(refused.err, /token_embd\.weight: rows of 384 values .* Q4_K, which have 256; name/);
  assert.ok(!readdirSync(folder).includes('quantised.gguf'));

  const written = wisp([
    'quantize',
    '--type',
    'q4_k',
    '--fallback',
    'q5_0',
    DEFAULT_MODEL_PATH,
    path,
  ]);
  assert.equal(written.code, 0);
  assert.match(written.out, /blk\.0\.ffn_up\.weight +Q5_0 +\d+ bytes .*\(fallback\)\n/);
  assert.match(
    written.out,
    /blk\.0\.ffn_down\.weight +Q4_K +\d+ bytes +mse [\d.e-]+ +cosine 0\.99\d+\n/,
  );
  assert.match(wisp(['inspect', path]).out, /blk\.0\.ffn_down\.weight +Q4_K +384 x 1536/);
  const { code, err } = wisp([
    'embed',
    '--verbose',
    '--predictor',
    'dense',
    '-m',
    path,
    '--text',
    'a',
  ]);
  assert.equal(code, 0);
  assert.match(err, /: dense layers in memory as q4_k: \d+ bytes\n/);
  assert.match(err, /: dense layers in memory as q5_0: \d+ bytes\n/);

  const measured = ['quantize', '--dry-run', '--type', 'q8_0,q2_k', '--sample', '1000'];
  assert.match(
    wisp([...measured, DEFAULT_MODEL_PATH]).out,
    /\nQ8_0 +\d+ .*\nQ2_K +31 tensors do not fit: --fallback/,
  );
  const { types } = JSON.parse(wisp([...measured, '--format', 'json', DEFAULT_MODEL_PATH]).out);
  assert.equal(
    types[0].tensors.find((/** @type {any} */ t) => t.name === 'blk.0.ffn_up.weight').type,
    'Q8_0',
  );
  for (const wrong of [
    ['--type', 'q9', DEFAULT_MODEL_PATH, path],
    ['--type', 'q8_0,q4_0', DEFAULT_MODEL_PATH, path],
    [DEFAULT_MODEL_PATH, path],
    ['--dry-run', DEFAULT_MODEL_PATH, path],
    ['--dry-run', '--sample', 'x', DEFAULT_MODEL_PATH],
    ['--type', 'q8_0', '--fallback', 'none', DEFAULT_MODEL_PATH, path],
    ['--type', 'q4_0', '--ffn-type', 'mxfp4', DEFAULT_MODEL_PATH, path],
    ['--type', 'q4_0', '--data', path, '--fallback', 'q8_0', DEFAULT_MODEL_PATH, path],
    ['--dry-run', '--data', path, DEFAULT_MODEL_PATH],
    ['--type', 'q4_0', '--data', path, '--tokens', 'x', DEFAULT_MODEL_PATH, path],
  ])
    assert.equal(wisp(['quantize', ...wrong]).code, 2, wrong.join(' '));
});

test('quantize --type bitnet_t158 takes options and policies, and writes a report', () => {
  const path = join(folder, 'ternary.gguf');
  const report = join(folder, 'ternary-report');
  const policy = join(folder, 'own.policy');
  const ternary = ['quantize', '--type', 'bitnet_t158'];
  const { code, out, err } = wisp([...ternary, '--report', report, DEFAULT_MODEL_PATH, path]);
  assert.equal(code, 0, err);
  assert.match(
    out,
    /blk\.0\.ffn_up\.weight +BITNET_T158 +\d+ bytes .* zeros 0\.\d{4} {2}scale [\d.e-]+ \+- /,
  );
  const { tensors } = JSON.parse(readFileSync(`${report}.json`, 'utf8'));
  const up = tensors.find((/** @type {any} */ t) => t.name === 'blk.0.ffn_up.weight');
  assert.deepEqual([up.type, up.clamped, up.blocks * 66], ['BITNET_T158', 0, up.bytes]);
  assert.ok(up.cosine > 0.8 && up.sparsity > 0.2 && up.scale_mean > up.scale_deviation);
  assert.match(readFileSync(`${report}.svg`, 'utf8'), /^<svg [^]*ffn_up[^]*<\/svg>\n$/);
  assert.match(wisp(['inspect', path]).out, /craftsman\.bitnet\.version +1\n/);
  assert.equal(wisp(['embed', '-m', path, '--text', 'a']).code, 0);

  writeFileSync(policy, wisp(['quantize', '--show-policy', 'default']).out + '\nblk* q9\n');
  const dry = [...ternary, '--dry-run', DEFAULT_MODEL_PATH];
  const wrong = wisp([...dry, '--policy', policy]);
  assert.equal(wrong.code, 3);
  assert.match(wrong.err, /own\.policy: line \d+: q9 is not a type that wisp writes/);
  const zeros = ['--target-sparsity', '0.75', '--epsilon', '1e-6', '--clip-threshold', '1.5'];
  const sparse = wisp([...dry, '--block-size', '256', '--format', 'json', ...zeros]);
  for (const tensor of JSON.parse(sparse.out).types[0].tensors)
    assert.ok(tensor.blocks === undefined || tensor.sparsity >= 0.75);
  for (const options of [
    ['--block-size', '128'],
    ['--block-size', '0'],
    ['--epsilon', '0'],
    ['--clip-threshold', '2.1'],
    ['--clip-threshold', 'wide'],
    ['--target-sparsity', '-1'],
    ['--show-policy', 'none'],
    ['--type', 'q8_0,q4_0', '--report', report],
  ])
    assert.equal(wisp([...dry, ...options]).code, 2, options.join(' '));
});

test('inspect --histogram counts the values of every tensor', () => {
  const { out, code } = wisp(['inspect', '--histogram', '--format', 'json', DEFAULT_MODEL_PATH]);
  assert.equal(code, 0);
  for (const tensor of JSON.parse(out).tensors) {
    const sum = tensor.bins.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b);
    assert.deepEqual([tensor.bins.length, sum], [32, tensor.values]);
  }
  const table = wisp(['inspect', '--histogram', DEFAULT_MODEL_PATH]).out;
  assert.match(table, /\ntoken_embd\.weight +\|[ ▁▂▃▄▅▆▇█]{32}\| \+-/);
  assert.equal(wisp(['inspect', '--histogram', '--neurons', DEFAULT_MODEL_PATH]).code, 2);
});

test('inspect --histogram shows its progress on a terminal, and removes it', () => {
  const script = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
try:
    while True:
        sys.stdout.buffer.write(os.read(terminal, 65536))
except OSError:
    pass  # the end of the program is an error here
os.waitpid(pid, 0)`;
  const args = ['inspect', '--histogram', DEFAULT_MODEL_PATH];
  const run = spawnSync('python3', ['-c', script, PROGRAM, ...args]);
  /* eslint-disable no-control-regex */
  const [, progress, table] = /^((?:\r\x1b\[K[^\r]* tensors, [^\r]*)+)\r\x1b\[K([^]*)$/.exec(String(run.stdout)) ?? []; // prettier-ignore
  assert.match(String(progress), /\r\x1b\[K\d+ tensors, /, String(run.stderr));
  /* eslint-enable no-control-regex */
  assert.equal(table?.replaceAll('\r', ''), wisp(args).out);
});

test('quantize refuses texts that it cannot use', () => {
  const path = join(folder, 'for-texts.gguf');
  const data = join(folder, 'texts.txt');
  const quantize = (/** @type {string[]} */ ...more) =>
    wisp(['quantize', '--type', 'q4_0', '--data', data, ...more, path]);
  assert.equal(quantize(DEFAULT_MODEL_PATH).code, 1);
  writeFileSync(data, '\n\n');
  const empty = quantize(DEFAULT_MODEL_PATH);
  assert.equal(empty.code, 1);
  assert.match(empty.err, /texts\.txt: no texts/);
  writeFileSync(data, 'a few words\n');
  assert.match(
    quantize(DEFAULT_MODEL_PATH).err,
    /texts: 1 texts with 5 tokens; at least 64 are needed/,
  );
  assert.match(quantize('--ffn-type', 'q4_k', DEFAULT_MODEL_PATH).err, /ffn_type: q4_k is not/);
  assert.ok(!readdirSync(folder).includes('for-texts.gguf'));
});

test('quantize chooses types for a size, and says what can be reached', () => {
  const path = join(folder, 'chosen.gguf');
  const data = join(folder, 'stories.txt');
  const stories = join(ROOT, 'models', 'wisp-stories.gguf');
  const lines = Array.from({ length: 40 }, (_, i) => `Once upon a time, cat ${i} saw a dog.\n`);
  writeFileSync(data, lines.join(''));
  const quantize = (/** @type {string[]} */ ...more) =>
    wisp(['quantize', '--data', data, '--pad-neurons', ...more, stories, path]);
  const few = quantize('--target-bytes', '1000');
  assert.equal(few.code, 2);
  assert.match(few.err, /target_bytes: 1000 bytes cannot be reached .* the smallest file has \d+/);
  for (const wrong of [
    ['--target-bytes', '0'],
    ['--target-cosine', '1'],
    ['--target-cosine', 'near'],
    ['--target-bytes', '1000000', '--target-cosine', '0.9'],
    ['--target-cosine', '0.9'],
    ['--type', 'bitnet_t158', '--epsilon', '1e-6'],
    ['--target-bytes', '1000000', '--type', 'q4_0,q4_9'],
  ])
    assert.equal(quantize(...wrong).code, 2, wrong.join(' '));
  assert.equal(wisp(['quantize', '--target-bytes', '1000000', stories, path]).code, 2);
  assert.ok(!readdirSync(folder).includes('chosen.gguf'));
  const table = quantize('--target-bytes', '200000', '--type', 'q8_0,q4_0');
  assert.equal(table.code, 0, table.err);
  assert.match(table.out, /blk\.0\.ffn_down\.weight +Q[48]_0 .* expected loss 0\.\d+\n/);
  assert.match(table.out, /\n\d+ bytes; on 8 texts held out .* diverge by \d+\.\d+ nats\n/);
  const report = join(folder, 'chosen-report');
  const json = quantize('--target-bytes', '200000', '--format', 'json', '--report', report);
  const [told] = JSON.parse(json.out).types;
  assert.equal(told.file_bytes, statSync(path).size);
  assert.ok(told.file_bytes <= 200000 && told.held_out === 8 && told.divergence > 0);
  assert.equal(told.tensors.length, 36);
  const { tensors } = JSON.parse(readFileSync(`${report}.json`, 'utf8'));
  for (const [i, { name, output_error: error, plain_error: plain }] of tensors.entries()) {
    assert.deepEqual([name, error], [told.tensors[i].name, told.tensors[i].output_error]);
    assert.ok(error > 0 && error <= plain * 1.000001, name);
  }
  const picture = readFileSync(`${report}.svg`, 'utf8');
  assert.match(
    picture,
    /^<svg [^]*>1 - output error<[^]*ffn_up[^]*, by rounding 0\.\d+<[^]*<\/svg>\n$/,
  );
});

test('quantize --data tells of a matrix without an error what it tells of others', () => {
  const [input, output] = [join(folder, 'zero.gguf'), join(folder, 'zero-q8_0.gguf')];
  const data = join(folder, 'stories.txt');
  const report = join(folder, 'zero-report');
  const bytes = readFileSync(join(ROOT, 'models', 'wisp-stories.gguf'));
  writeFileSync(input, bytes);
  const { tensors } = JSON.parse(wisp(['inspect', '--format', 'json', input]).out);
  // Matrices of zeros give no outputs, and so the one behind them has no inputs.
  for (const { name, offset, bytes: size } of tensors)
    if (/^blk\.0\.attn_[qkv]\.weight$/.test(name)) bytes.fill(0, offset, offset + size);
  writeFileSync(input, bytes);
  writeFileSync(data, 'Once upon a time, a cat saw a dog. It was big.\n'.repeat(40));
  const args = ['quantize', '--data', data, '--type', 'q8_0', '--pad-neurons', input, output];
  const table = wisp(args);
  assert.equal(table.code, 0, table.err);
  assert.match(
    table.out,
    /blk\.0\.attn_q\.weight .* error of outputs 0\.000000, by rounding 0\.000000\n/,
  );
  const json = wisp([...args, '--format', 'json', '--report', report]);
  const [told] = JSON.parse(json.out).types;
  const reported = JSON.parse(readFileSync(`${report}.json`, 'utf8'));
  for (const list of [told.tensors, reported.tensors]) {
    const exact = list.filter((/** @type {any} */ tensor) => tensor.output_error === 0);
    assert.deepEqual(
      exact.map((/** @type {any} */ tensor) => [tensor.name, tensor.plain_error]),
      ['q', 'k', 'v', 'output'].map((part) => [`blk.0.attn_${part}.weight`, 0]),
    );
    for (const tensor of list) assert.ok(!('mse' in tensor) && tensor.output_error >= 0);
  }
});
