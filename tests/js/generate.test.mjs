// SPDX-License-Identifier: Apache-2.0
// `wisp generate` as a user runs it.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-generate-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args @param {string} [input] */
const generate = (args, input) => wisp(['generate', ...args], input);

describe('generate', () => {
  const story = generate(['--text', 'Once upon a time', '-n', '40']);

  test('continues a prompt with the model that comes with wisp', () => {
    assert.equal(story.code, 0);
    assert.match(story.out, /^, there was a little girl named Lily\. She loved to play outside/);
    assert.ok(story.out.endsWith('\n'));
  });

  test('reads the prompt from a file or standard input, without the end of its last line', () => {
    const path = join(folder, 'prompt.txt');
    writeFileSync(path, 'Once upon a time\n');
    assert.equal(generate([path, '-n', '40']).out, story.out);
    assert.equal(generate(['-n', '40'], 'Once upon a time\n').out, story.out);
    assert.equal(generate(['-', '-n', '40'], 'Once upon a time').out, story.out);
  });

  test('--echo, --stop and --stats', () => {
    const { out, err } = generate([
      '--echo',
      '--stop',
      ' Lily',
      '--stats',
      '--text',
      'Once upon a time',
    ]);
    assert.equal(out, 'Once upon a time, there was a little girl named\n');
    assert.match(err, /^prompt: 5 tokens in [\d.]+ s, [\d.]+ tokens\/s\ntext: {3}\d+ tokens in /m);
    assert.match(err, /^time to the first token: [\d.]+ s$/m);
    assert.match(
      err,
      /^read for the text: [\d.]+ MB of weights, keys and values, [\d.]+ GB\/s, \d+ % of/m,
    );
  });

  test('--attention-picture draws what heads looked at, and what they left out', () => {
    const prompt = 'Tom and Ann went to the park. '.repeat(30);
    /** @param {string} policy */
    const picture = (policy) => {
      const path = join(folder, `${policy.split(',')[0]}.svg`);
      const options = ['--attention', policy, '--attention-picture', path];
      const { code, err } = generate([...options, '--text', prompt, '-n', '5']);
      assert.equal(code, 0, err);
      return readFileSync(path, 'utf8');
    };
    const unseen = /<path [^>]*fill="#e3e3e3"/;
    const full = picture('full');
    assert.match(full, /^<svg [^]*>layer 0<[^]*>layer 4<[^]*<\/svg>\n$/);
    assert.doesNotMatch(full, unseen);
    assert.match(picture('local,window=64,sinks=16'), unseen);
    const kept = join(folder, 'prompt.txt');
    writeFileSync(kept, 'not a picture\n');
    const refused = generate(['--attention-picture', kept, '--text', prompt, '-n', '5']);
    assert.equal(refused.code, 2);
    assert.match(refused.err, /prompt\.txt/);
    assert.equal(readFileSync(kept, 'utf8'), 'not a picture\n');
  });

  test('--context-shift lets prompts and texts be longer than the context', () => {
    const prompt = 'Tom and Ann went to the park. '.repeat(80);
    const fails = generate(['--text', prompt, '-n', '5']);
    assert.equal(fails.code, 2);
    assert.match(fails.err, /prompt: \d+ tokens, but the model's context has 512/);
    const slides = ['--context-shift', '--stats', '--bias', '2=-inf', '--bias', '1=-inf'];
    const { code, out, err } = generate([...slides, '--text', prompt, '-n', '5']);
    assert.equal(code, 0, err);
    assert.ok(out.length > 1);
    assert.match(err, /^dropped: \d+ tokens, for which the context had no room$/m);
    const long = generate([...slides, '--keep', '4', '--text', 'Once upon a time', '-n', '700']);
    assert.match(long.err, /^text: {3}700 tokens in /m);
    assert.match(long.err, /^dropped: 253 tokens/m);
    assert.match(generate(['--keep', '4', '--text', 'a']).err, /--keep requires --context-shift/);
    assert.equal(generate(['--context-shift', '--beams', '2', '--text', 'a']).code, 2);
  });

  test('a seed gives one text, and another seed another', () => {
    const args = ['--text', 'The dog', '-n', '30', '--temperature', '1', '--top-k', '50', '--seed'];
    assert.equal(generate([...args, '7']).out, generate([...args, '7']).out);
    assert.notEqual(generate([...args, '7']).out, generate([...args, '8']).out);
  });

  test('threads and tokens read before change nothing', () => {
    for (const threads of ['1', '2', '5'])
      assert.equal(
        generate(['--text', 'Once upon a time', '-n', '40', '-t', threads]).out,
        story.out,
      );
  });

  test('--data continues many prompts, each as alone, and keeps the members of objects', () => {
    const prompts = ['Once upon a time', 'The dog', 'Once upon a time, there', 'Tom "and" Ann\n'];
    const lines = prompts.map((prompt, i) => JSON.stringify(i % 2 ? { id: i, prompt } : prompt));
    const args = ['-n', '30', '--temperature', '0.8', '--seed', '3'];
    const run = generate([...args, '--data', '-', '--at-once', '3', '--stats'], lines.join('\n'));
    assert.equal(run.code, 0, run.err);
    const results = run.out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.equal(results.length, prompts.length);
    for (const [i, prompt] of prompts.entries()) {
      const alone = generate([...args, '--text', prompt]).out;
      assert.equal(`${results[i].text}\n`, alone);
      assert.equal(results[i].id, i % 2 ? i : undefined);
      assert.ok(results[i].tokens <= 30 && /^(length|token)$/.test(results[i].end));
      assert.equal(results[i].prompt, undefined);
    }
    assert.match(run.err, /^4 texts in [\d.]+ s: prompts of \d+ tokens/m);
  });

  test('--logprobs gives tokens with their probabilities', () => {
    const run = generate(['-n', '5', '--data', '-', '--logprobs', '2'], '"Once upon a time"\n');
    const { pieces, tokens } = JSON.parse(run.out);
    assert.equal(pieces.length, tokens);
    for (const { id, logprob, likely } of pieces) {
      assert.equal(likely.length, 2);
      assert.deepEqual(likely[0], [id, logprob]); // greedy
      assert.ok(logprob <= 0 && likely[1][1] <= logprob);
    }
  });

  test('--bias, --stop-id and --order', () => {
    const one = ['--text', 'Once upon a time', '-n', '1'];
    const first = generate(one).out;
    const { pieces } = JSON.parse(
      generate(['-n', '1', '--data', '-', '--logprobs', '1'], '"Once upon a time"').out,
    );
    const id = String(pieces[0].id);
    assert.notEqual(generate([...one, '--bias', `${id}=-inf`]).out, first);
    assert.equal(generate([...one, '--stop-id', id]).out, '\n');
    const drawn = ['--text', 'The', '-n', '40', '--temperature', '2', '--top-p', '0.9'];
    const usual = generate([...drawn, '--order', 'transformers']).out;
    assert.equal(generate(drawn).out, usual);
    assert.notEqual(generate([...drawn, '--order', 'llama.cpp']).out, usual);
  });

  test('--beams writes the likeliest texts', () => {
    const args = ['--text', 'Once upon a time', '-n', '10', '--beams'];
    const lines = generate([...args, '3'])
      .out.trimEnd()
      .split('\n');
    const [best, second, third] = lines.map((line) => JSON.parse(line));
    assert.ok(best.score >= second.score && second.score >= third.score);
    assert.equal(best.tokens, 10);
    assert.ok(Math.abs(best.score - best.logprob / 10) < 1e-5);
    const sums = generate([...args, '2', '--length-penalty', '0'])
      .out.trimEnd()
      .split('\n');
    for (const { score, logprob } of sums.map((line) => JSON.parse(line)))
      assert.equal(score, logprob);
    const run = generate(['--text', 'a', '--length-penalty', '0']);
    assert.equal(run.code, 2);
    assert.match(run.err, /--length-penalty requires --beams/);
  });

  test('--help lists each option', () => {
    const { out } = generate(['--help']);
    for (const option of [
      'grammar',
      'json-schema',
      'beams',
      'length-penalty',
      'state',
      'cache-type',
      'attention',
      'logprobs',
      'chat-format',
      'typical-p',
    ])
      assert.match(out, new RegExp(`^ +--${option} `, 'm'));
    assert.ok(out.split('\n').every((line) => line.length <= 100 && !line.endsWith(' ')));
  });

  test('--json-schema and --grammar', () => {
    const schema = join(folder, 'schema.json');
    writeFileSync(
      schema,
      '{"properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},' +
        ' "required": ["name"], "type": "object", "additionalProperties": false}',
    );
    const { out } = generate(['--text', 'One day', '--json-schema', schema, '-n', '300']);
    const { name, age, ...rest } = JSON.parse(out);
    assert.ok(typeof name === 'string' && name.length <= 8);
    assert.ok(age === undefined || Number.isInteger(age));
    assert.deepEqual(rest, {});
    const grammar = join(folder, 'grammar.gbnf');
    writeFileSync(grammar, 'root ::= (" " [a-z]+){3} "!"\n');
    assert.match(
      generate(['--text', 'One day', '--grammar', grammar, '-n', '60', '--temperature', '1']).out,
      /^( [a-z]+){0,3}!?\n$/,
    );
    writeFileSync(grammar, 'root ::= root "a"\n');
    for (const [args, code, message] of [
      [['--grammar', grammar], 4, /grammar\.gbnf: grammar: line 1, column 1: the rule can begin/],
      [['--json-schema', grammar], 4, /grammar\.gbnf: .*line 1, column 1/],
      [['--grammar', grammar, '--json-schema', schema], 2, /--grammar and --json-schema exclude/],
      [['--grammar', join(folder, 'none')], 1, /none: cannot open/],
    ]) {
      const run = generate(['--text', 'a', .../** @type {string[]} */ (args)]);
      assert.equal(run.code, code, run.err);
      assert.match(run.err, /** @type {RegExp} */ (message));
    }
  });

  test('a line of --data without a text costs only its own', () => {
    const long = JSON.stringify('cat dog '.repeat(600));
    for (const [bad, message, error] of [
      ['7', /line 2: neither a JSON string nor an object with a string "prompt"/, /neither a JSON/],
      ['{"text":"b"}', /line 2: neither a JSON string/, /neither a JSON string/],
      ['{"prompt":', /line 2, column/, /column/],
      [long, /line 2: prompt: \d+ tokens/, /^prompt: \d+ tokens, but the model's context has/],
      [`{"prompt":${long},"id":5}`, /line 2: prompt/, /^prompt/],
    ]) {
      for (const atOnce of ['1', '8']) {
        const args = ['-n', '2', '--at-once', atOnce, '--data', '-'];
        const run = generate(args, `"a"\n${bad}\n"b"\n`);
        assert.equal(run.code, 4);
        assert.match(run.err, /** @type {RegExp} */ (message));
        const [first, second, third, ...more] = run.out
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line));
        assert.match(second.error, /** @type {RegExp} */ (error));
        assert.equal(second.id, String(bad).includes('"id"') ? 5 : undefined);
        assert.deepEqual([first.tokens, third.tokens, more.length], [2, 2, 0]);
        assert.equal(run.out.split('\n')[2], generate(args, '"b"\n').out.trimEnd());
      }
    }
    const only = generate(['-n', '2', '--data', '-'], `${long}\n7\n`);
    assert.equal(only.code, 4);
    assert.equal(only.out.trimEnd().split('\n').length, 2);
  });

  test('a prompt of --data that is too long is named by its line', () => {
    const long = JSON.stringify('cat dog '.repeat(600));
    for (const [input, line] of [
      [`"a"\n\n${long}\n"b"\n`, 3],
      [`${long}\n`, 1],
    ]) {
      const run = generate(['-n', '2', '--data', '-'], String(input));
      assert.equal(run.code, 4, run.err);
      assert.match(run.err, new RegExp(`^wisp: .*: line ${line}: .*prompt: \\d+ tokens, but`));
    }
    const wrong = generate(['--temperature', '-1', '--data', '-'], '"a"\n"b"\n');
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /^wisp: temperature: /);
  });

  test('--state keeps what was computed, and refuses what it does not fit', () => {
    const state = join(folder, 'story.state');
    const run = (/** @type {string[]} */ ...args) =>
      generate(['--state', state, '--stats', '-n', '20', ...args]);
    const first = run('--text', 'Once upon a time');
    assert.equal(first.code, 0, first.err);
    const longer = `Once upon a time${first.out.trimEnd()}`;
    const second = run('--text', longer);
    assert.match(second.err, /\((1\d|2\d) tokens were known\)/);
    assert.equal(second.out, generate(['--text', longer, '-n', '20']).out);
    const other = run('--text', 'a', '--cache-type', 'f16');
    assert.equal(other.code, 2);
    assert.match(other.err, /story\.state: cache_type: .* the session's is f16/);
    const kept = readFileSync(state);
    kept[kept.length - 20] ^= 1;
    writeFileSync(state, kept);
    const damaged = run('--text', 'a');
    assert.equal(damaged.code, 3);
    assert.match(damaged.err, /keys and values: the checksum is wrong/);
    assert.deepEqual(readFileSync(state), kept);
  });

  test('--cache-type keeps keys and values in fewer bytes', () => {
    for (const type of ['f32', 'f16', 'int8']) {
      const { code, out } = generate(['--text', 'Once', '-n', '5', '--cache-type', type]);
      assert.equal(code, 0);
      assert.ok(out.length > 5);
    }
    const wrong = generate(['--text', 'Once', '--cache-type', 'f8']);
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /--cache-type.*auto, f16, int8, f32/);
    const words = ['--text', 'Once', '-n', '1', '--stats', '--verbose'];
    for (const [compute, type] of [
      ['f32', 'f32'],
      ['int8', 'int8'],
    ]) {
      const { err } = generate([...words, '--compute', compute]);
      assert.match(err, new RegExp(`^keys and values as ${type}$`, 'm'));
      assert.match(err, new RegExp(`: keys and values in memory as ${type}$`, 'm'));
    }
  });

  test('--attention chooses which keys a token looks at', () => {
    const text = ['--text', 'Once', '-n', '5', '--temperature', '0'];
    const whole = generate(text);
    for (const policy of [
      ...['full', 'local', 'full/local,window=64', 'strided,stride=2', 'mass,mass=1000'],
      ...['full/quest', 'minference,budget=100/quest'],
    ])
      assert.equal(generate([...text, '--attention', policy]).out, whole.out);
    /** @type {[string, RegExp][]} */
    const wrong = [
      ['exact', /attention: "exact" is not one of the policies full, local, strided, mass, quest/],
      ['quest', /attention: quest is for adding one token at a time, .* as in "full\/quest"/],
      ['minference', /attention: minference is for reading prompts, .* as in "minference\/full"/],
      ['full/quest,tokens=8', /tokens of quest is "8", and must be a whole number of at least 64/],
      [
        'local,window=8',
        /attention: window of local is "8", and must be a whole number of at least 64/,
      ],
      ['full,sinks=4', /attention: full takes no "sinks"/],
    ];
    for (const [policy, message] of wrong) {
      const { code, err } = generate([...text, '--attention', policy]);
      assert.notEqual(code, 0);
      assert.match(err, message);
    }
  });

  test('wrong options and models are errors', () => {
    for (const [args, code, message] of [
      [['--text', 'a', '--bias', '5'], 2, /--bias 5: expected a token id, = and a number/],
      [['--text', 'a', '--bias', '99999=1'], 2, /bias: id 99999, but there are 512 tokens/],
      [['--text', 'a', '--order', 'mine'], 2, /--order.*transformers, llama\.cpp/],
      [['--text', 'a', '--data', 'b'], 2, /--data and --text exclude each other/],
      [['--text', 'a', '--beams', '2', '--temperature', '1'], 2, /--beams excludes --data/],
      [['--text', 'a', '--beams', '65'], 2, /--beams 65/],
      [['--text', 'a', '--beams', '2', '--bias', '5=1'], 2, /--beams excludes --data/],
      [['--text', 'a', '--beams', '2', '--stats'], 2, /--beams excludes --data/],
      [['--text', 'a', '--text', 'b'], 2, /b: one prompt, and a was given before/],
      [['--text', 'a', 'b.txt'], 2, /b\.txt: one prompt, and a was given before/],
      [['a.txt', '--', '-b.txt'], 2, /-b\.txt: one prompt, and a\.txt was given before/],
      [['--text', 'a', '--logprobs', '2'], 2, /--logprobs requires --data/],
      [['--text', 'a', '--temperature', 'hot'], 2, /--temperature hot: expected a number/],
      [['--text', 'a', '--temperature', '-1'], 2, /temperature: -1 is not between 0 and/],
      [['--text', 'a', '--top-p', '2'], 2, /top_p: 2 is not between 0 and 1/],
      [['--text', 'a', '--stop', ''], 2, /--stop: an empty text/],
      [['--text', 'a', '-n', '0'], 2, /--max-tokens 0: expected a whole number/],
      [['--text', 'x'.repeat(3000)], 2, /prompt: \d+ tokens, but the model's context has 512/],
      [[join(folder, 'none.txt')], 1, /none\.txt: cannot open: No such file/],
      [['--text', 'a', '-m', 'models/wisp-default.gguf'], 3, /architecture bert generate no text/],
    ]) {
      const run = generate(/** @type {string[]} */ (args));
      assert.equal(run.code, code, run.err);
      assert.match(run.err, /** @type {RegExp} */ (message));
      assert.equal(run.out, '');
    }
    const embed = wisp(['embed', '-m', 'models/wisp-stories.gguf', '--text', 'a']);
    assert.equal(embed.code, 3);
    assert.match(embed.err, /architecture llama make no embeddings/);
  });
});
