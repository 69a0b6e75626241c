// SPDX-License-Identifier: Apache-2.0
// Compares the figures of wisp eval with those computed here from wisp embed.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ROOT, cosine, floatsOf, noShared, onlyInAll, sharedPath, wisp } from './support.mjs';

const SIZE = 384;
const folder = mkdtempSync(join(tmpdir(), 'wisp-eval-'));
after(() => rmSync(folder, { recursive: true }));

const pairs = [
  [4.5, 'A man is eating.', 'A man eats.'],
  [0.5, 'A man is eating.', 'The "train" is late.'],
  [3, 'It rains in the city.', 'There is rain in the town.'],
  [1, 'Two dogs run.', 'Stocks fell on Monday.'],
  [3, 'Two dogs run.', 'A dog walks.'],
];
const simple = pairs.map((pair) => pair.join('\t')).join('\n') + '\n';

/** @param {string[]} args @param {string} [input] */
const figures = (args, input) => JSON.parse(wisp(['eval', 'sts', '--json', ...args], input).out);

/** @param {string[]} args */
function embedPairs(args) {
  const texts = pairs.flatMap((pair) => pair.slice(1)).join('\n');
  const rows = floatsOf(wisp(['embed', '--format', 'f32', ...args], texts).bytes);
  return pairs.flatMap((_, i) =>
    [2 * i, 2 * i + 1].map((row) => rows.subarray(row * SIZE, (row + 1) * SIZE)),
  );
}

/** @param {number[]} values */
const ranks = (values) =>
  values.map(
    (v) =>
      values.filter((other) => other < v).length +
      (values.filter((other) => other === v).length + 1) / 2,
  );

/** @param {number[]} x @param {number[]} y */
function pearson(x, y) {
  const mean = (/** @type {number[]} */ v) => v.reduce((a, b) => a + b) / v.length;
  const dx = x.map((v) => v - mean(x));
  const dy = y.map((v) => v - mean(y));
  const dot = (/** @type {number[]} */ a, /** @type {number[]} */ b) =>
    a.reduce((sum, v, i) => sum + v * b[i], 0);
  return dot(dx, dy) / Math.sqrt(dot(dx, dx) * dot(dy, dy));
}

/** @param {number} a @param {number} b */
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

describe('eval sts', () => {
  test('gives the figures that its embeddings have', () => {
    const got = figures([], simple);
    const rows = embedPairs([]);
    const reference = embedPairs(['--compute', 'f32']);
    const human = pairs.map((pair) => Number(pair[0]));
    const scores = pairs.map((_, i) => cosine(rows[2 * i], rows[2 * i + 1]));
    const cosines = rows.map((row, i) => cosine(row, reference[i]));
    assert.equal(got.pairs, 5);
    assert.equal(got.compute, 'int8');
    near(got.pearson, pearson(scores, human));
    near(got.spearman, pearson(ranks(scores), ranks(human)));
    near(got.mean_cosine, cosines.reduce((a, b) => a + b) / cosines.length);
    near(got.min_cosine, Math.min(...cosines));
    assert.ok(got.min_cosine < 1 && got.first_percentile_cosine >= got.min_cosine);
  });

  test('f32 is its own reference', () => {
    const got = figures(['--compute', 'f32'], simple);
    assert.equal(got.spearman, got.reference_spearman);
    near(got.min_cosine, 1);
  });

  test("reads a file, and the benchmark's seven columns and more", () => {
    const path = join(folder, 'pairs.tsv');
    const wide = pairs.map(([score, a, b]) => `main\tx\t2012\t7\t${score}\t${a}\t${b}\tmore\tyet`);
    writeFileSync(path, wide.join('\r\n'));
    assert.deepEqual(figures(['--data', path]), figures([], simple));
    assert.deepEqual(figures([path]), figures([], simple));
  });

  test('shows a table', () => {
    assert.match(wisp(['eval', 'sts'], simple).out, /^ +model +f32 dense\nSpearman +0\.\d{4} /);
  });

  for (const [what, input, message] of [
    ['two columns', '1\ta\tb\n2\tc\n', /line 2: 2 columns; expected 3 or at least 7/],
    ['a score that is none', 'high\ta\tb\n', /line 1: the score "high" is not a number/],
    ['no pairs', '', /no pairs/],
  ])
    test(`refuses ${what}`, () => {
      const run = wisp(['eval', 'sts'], String(input));
      assert.equal(run.code, 4);
      assert.match(run.err, /** @type {RegExp} */ (message));
    });

  test('explains wrong usage', () => {
    assert.equal(wisp(['eval']).code, 2);
    assert.equal(wisp(['eval', 'sts', 'a', 'b']).code, 2);
    assert.match(wisp(['eval', 'sts', '--context', '9']).err, /--context is an option of eval ppl/);
    assert.match(wisp(['eval', '--help']).out, /^usage: wisp eval sts/);
  });

  test('the default model keeps its quality on STS-B test', { skip: noShared || onlyInAll }, () => {
    const got = figures([sharedPath('data/stsb/sts-test.csv')]);
    assert.equal(got.pairs, 1379);
    assert.ok(Math.abs(got.spearman - got.reference_spearman) < 0.003, `${got.spearman}`);
    assert.ok(got.spearman > 0.82);
  });
});

describe('eval retrieval', () => {
  const set = join(folder, 'beir');
  const documents = [
    ['d1', 'Cats', 'Cats sleep on sofas and hunt mice.'],
    ['d2', '', 'Interest on a loan is due every month.'],
    ['d3', 'Rain', 'It rains in the city all day.'],
    ['d4', 'Dogs', 'A dog runs after a ball in the park.'],
    ...Array.from({ length: 12 }, (_, i) => [`n${i}`, '', `Number ${i} of the list of numbers.`]),
    ['q3', '', 'Which pets run in parks?'], // has the id of a query, which does not find it
  ];
  const queries = [
    ['q1', 'pets that sleep'],
    ['q2', 'When do I pay the bank?'],
    ['q3', 'Which pets run in parks?'],
    ['unjudged', 'nothing'],
  ];
  /** Grades of documents, which need not be there. @type {Record<string, Record<string, number>>} */
  const grades = { q1: { d1: 2, d4: 1 }, q2: { d2: 1, d3: 0, gone: 1 }, q3: { d4: 3 } };

  /** @param {string} name @param {object[]} lines */
  const lines = (name, ...lines) =>
    writeFileSync(join(set, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  mkdirSync(join(set, 'qrels'), { recursive: true });
  lines('corpus.jsonl', ...documents.map(([_id, title, text]) => ({ _id, title, text })));
  lines('queries.jsonl', ...queries.map(([_id, text]) => ({ _id, text })));
  const qrels = Object.entries(grades).flatMap(([query, of]) =>
    Object.entries(of).map(([document, grade]) => `${query}\t${document}\t${grade}\n`),
  );
  writeFileSync(join(set, 'qrels/test.tsv'), ['query-id\tcorpus-id\tscore\n', ...qrels].join(''));
  /** @param {string[]} args */
  const retrieval = (...args) => wisp(['eval', 'retrieval', ...args]);

  /** nDCG and recall by the embeddings of the program. @param {string[]} args */
  function expected(...args) {
    const texts = [
      ...documents.map(([, title, text]) => (title ? `${title} ${text}` : text)),
      ...queries.map(([, text]) => text),
    ];
    const all = floatsOf(wisp(['embed', '--format', 'f32', ...args], texts.join('\n')).bytes);
    const rows = texts.map((_, i) => all.subarray(i * SIZE, (i + 1) * SIZE));
    const scores = Object.entries(grades).map(([query, of]) => {
      const row = rows[documents.length + queries.findIndex(([id]) => id === query)];
      const found = documents
        .map(([id], i) => ({ id, score: cosine(row, rows[i]) }))
        .filter(({ id }) => id !== query)
        .sort((a, b) => b.score - a.score)
        .slice(0, 10);
      const gain = (/** @type {number[]} */ list) =>
        list.reduce((sum, grade, rank) => sum + grade / Math.log2(rank + 2), 0);
      const ideal = Object.values(of).sort((a, b) => b - a);
      const got = found.map(({ id }) => of[id] ?? 0);
      const relevant = ideal.filter((grade) => grade > 0).length;
      return [gain(got) / gain(ideal), got.filter((grade) => grade > 0).length / relevant];
    });
    return [0, 1].map((i) => scores.reduce((sum, of) => sum + of[i], 0) / scores.length);
  }

  test('gives the figures that its embeddings have', () => {
    const got = JSON.parse(retrieval('--json', set).out);
    assert.deepEqual([got.documents, got.queries], [documents.length, 3]);
    const [ndcg, recall] = expected();
    near(got.ndcg_at_10, ndcg);
    near(got.recall_at_10, recall);
    const [reference, referenceRecall] = expected('--compute', 'f32', '--predictor', 'dense');
    near(got.reference_ndcg_at_10, reference);
    near(got.reference_recall_at_10, referenceRecall);
    assert.ok(got.recall_at_10 > 0.8 && got.recall_at_10 < 1); // one document is not there
    assert.match(retrieval(set).out, /^ +model +f32 dense\nnDCG@10 +0\.\d{4} /);
  });

  test('what cannot be evaluated is an error', () => {
    assert.equal(retrieval().code, 2);
    assert.match(retrieval('--context', '9', set).err, /--context is an option of eval ppl/);
    assert.match(retrieval(join(folder, 'none')).err, /none\/queries\.jsonl/);
    for (const [name, content, message] of [
      [
        'qrels/test.tsv',
        'query-id\tcorpus-id\tscore\nq1\td1\n',
        /line 2: expected the id of a query/,
      ],
      ['qrels/test.tsv', 'query-id\tcorpus-id\tscore\nq1\td1\tx\n', /line 2: expected the id/],
      [
        'qrels/test.tsv',
        'query-id\tcorpus-id\tscore\nq9\td1\t1\n',
        /line 2: .*queries\.jsonl has no query q9/,
      ],
      [
        'qrels/test.tsv',
        'query-id\tcorpus-id\tscore\nq1\td1\t0\n',
        /no query has a relevant document/,
      ],
      [
        'queries.jsonl',
        '{"text":"a"}\n',
        /queries\.jsonl: line 1: _id: expected a string or a number/,
      ],
      [
        'queries.jsonl',
        '{"_id":1,"text":"a"}\n{"_id":"1","text":"b"}\n',
        /two lines have the _id 1/,
      ],
    ]) {
      const kept = readFileSync(join(set, String(name)));
      writeFileSync(join(set, String(name)), String(content));
      const { code, err } = retrieval(set);
      writeFileSync(join(set, String(name)), kept);
      assert.equal(code, 4, err);
      assert.match(err, /** @type {RegExp} */ (message));
    }
  });
});

describe('eval ppl', () => {
  const golden = JSON.parse(readFileSync(join(ROOT, 'tests/data/golden-stories.json'), 'utf8'));

  /** @param {string[]} args @param {string} [input] */
  const perplexity = (args, input) => wisp(['eval', 'ppl', ...args], input);

  test('a text of one chunk has the perplexity that PyTorch computes', () => {
    const result = JSON.parse(perplexity(['--json', '--compute', 'f32'], golden.text).out);
    assert.ok(Math.abs(result.perplexity / golden.perplexity - 1) < 1e-5);
    assert.equal(result.tokens, golden.ids.length - 1);
    assert.equal(result.chunks, 1);
    /* The space that SentencePiece puts before a text is not in the text. */
    assert.equal(result.bytes, Buffer.byteLength(golden.text) + 1);
    const bits = (Math.log2(golden.perplexity) * result.tokens) / result.bytes;
    assert.ok(Math.abs(result.bits_per_byte / bits - 1) < 1e-5);
  });

  /* Perplexities are those of llama.cpp v0.4.0's llama-perplexity, of the model in F32 with -ctk f32
   * -ctv f32 -fa off: -c 64; and -c 256 -b 256 --ppl-stride 200, of which it makes contexts of 512. */
  test('longer texts are cut into chunks, and counted as llama.cpp counts', () => {
    const args = ['--compute', 'f32', '--context', '64'];
    const result = JSON.parse(perplexity(['--json', ...args], golden.text).out);
    assert.deepEqual([result.context, result.chunks, result.tokens], [64, 3, 93]);
    assert.match(perplexity(args, golden.text).out, /^perplexity +16\.5161 \+\/- 7\.0068\n/);
  });

  test('chunks that overlap predict as many tokens as they are apart', () => {
    const text = Array(5).fill(golden.text).join(' ');
    const args = ['--json', '--compute', 'f32', '--context', '512', '--stride', '200'];
    const result = JSON.parse(perplexity(args, text).out);
    assert.deepEqual([result.chunks, result.tokens], [4, 800]);
    assert.equal(result.perplexity.toFixed(4), '16.4408');
  });

  test('what cannot be evaluated is an error', () => {
    for (const [args, input, code, message] of [
      [
        ['--context', '64', '--stride', '64'],
        'a',
        2,
        /--stride 64: expected a number below the 64 tokens/,
      ],
      [['--limit', '3'], 'a', 2, /--limit is an option of eval mmlu/],
      [[], '', 4, /the text has 1 tokens/],
      [['--context', '513'], 'a', 2, /--context 513: the model takes 4 to 512 tokens/],
      [['-m', 'models/wisp-default.gguf'], 'a b', 3, /architecture bert generate no text/],
      [[join(folder, 'none.txt')], '', 1, /none\.txt: cannot open/],
    ]) {
      const run = perplexity(/** @type {string[]} */ (args), /** @type {string} */ (input));
      assert.equal(run.code, code, run.err);
      assert.match(run.err, /** @type {RegExp} */ (message));
    }
  });
});

describe('eval mmlu', () => {
  const questions = join(folder, 'mmlu');
  mkdirSync(questions);
  writeFileSync(
    join(questions, 'colors_test.csv'),
    'question,A,B,C,D,answer\n"The sky is ""blue"" or","red","blue","a, b","big",1\n' +
      '"Lily said "no," and","ran","sat","said "yes"","was",3\n"The sun is","hot","cold","wet","old",0\n',
  );
  writeFileSync(join(questions, 'animals_test.csv'), '"The dog","ran","sat","ate","was",A\n');
  writeFileSync(join(questions, 'animals_dev.csv'), '"The cat","ran","sat","ate","was",C\n');
  writeFileSync(join(questions, 'notes.txt'), 'no questions');

  /** @param {string[]} args */
  const mmlu = (args) => wisp(['eval', 'mmlu', ...args]);

  test('asks all questions that are not examples', () => {
    for (const [shots, asked] of [
      ['0', 4],
      ['1', 3],
      ['5', 1],
    ]) {
      const run = mmlu([questions, '--json', '--answers', '--shots', String(shots)]);
      assert.equal(run.code, 0, run.err);
      const lines = run.out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      const { questions: count, correct, subjects, low, high, accuracy } = lines.pop();
      assert.equal(count, asked);
      assert.equal(lines.length, asked);
      assert.equal(correct, lines.filter(({ answer, choice }) => answer === choice).length);
      assert.deepEqual(Object.keys(subjects), ['animals', 'colors']);
      assert.ok(low <= accuracy && accuracy <= high);
    }
    assert.equal(
      JSON.parse(mmlu([questions, '--json', '--shots', '0', '--limit', '1']).out).questions,
      2,
    );
    assert.match(mmlu([questions]).out, /^subject +questions +correct +accuracy\nanimals +1 /);
  });

  test('reads quotes only where a field needs them, and files without questions', () => {
    const needed = join(folder, 'needed');
    mkdirSync(needed);
    writeFileSync(
      join(needed, 'degrees_test.csv'),
      '"The degree of ""x"", over Q.",0,4,2,6,B\r\n"Lily\nsaid",1,"2, 3",4,5,A\r\n' +
        'The sun,"a ""b""",c,"d,e",f,D\r\n',
    );
    writeFileSync(join(needed, 'empty_test.csv'), 'question,A,B,C,D,answer\n');
    const run = mmlu([needed, '--json', '--answers', '--shots', '0']);
    assert.equal(run.code, 0, run.err);
    const lines = run.out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(lines.pop().subjects.empty, { questions: 0, correct: 0 });
    assert.deepEqual(
      lines.map(({ answer }) => answer),
      ['B', 'A', 'D'],
    );
  });

  test('what cannot be asked is an error', () => {
    const broken = join(folder, 'broken');
    mkdirSync(broken);
    writeFileSync(join(broken, 'a_test.csv'), '"The dog","ran","sat","ate","was",7\n');
    const open = join(folder, 'open');
    mkdirSync(open);
    writeFileSync(join(open, 'a_test.csv'), '"The dog","ran","sat","ate","was",1\n"The');
    for (const [args, code, message] of [
      [[], 2, /eval mmlu: say which folder/],
      [[join(folder, 'none')], 1, /none: cannot open/],
      [[folder], 4, /has no file that ends with _test\.csv/],
      [[broken], 4, /a_test\.csv: line 1: not a question/],
      [[open], 4, /a_test\.csv: line 2: a quoted field does not end/],
      [[questions, '--shots', 'x'], 2, /--shots x/],
      [[questions, '--stride', '4'], 2, /--stride is an option of eval ppl/],
      [[questions, '-m', 'models/wisp-default.gguf'], 3, /architecture bert generate no text/],
    ]) {
      const run = mmlu(/** @type {string[]} */ (args));
      assert.equal(run.code, code, run.err);
      assert.match(run.err, /** @type {RegExp} */ (message));
    }
  });
});
