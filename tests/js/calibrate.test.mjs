// SPDX-License-Identifier: Apache-2.0
// wisp calibrate as a user runs it: from texts to a sparse model, and back.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pickBuild } from '../../js/calls/load.js';
import { Engine } from '../../js/engine/engine.js';
import { Embedder } from '../../js/node.js';
import { compileBuild } from '../../js/embedding-node.js';
import { shortTexts } from './pool/texts.mjs';
import { DEFAULT_MODEL_PATH, ROOT, onlyInAll, smallModel, wisp } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp-calibrate-'));
after(() => rmSync(folder, { recursive: true }));

const subjects = ['A man', 'The old woman', 'Two children', 'My dog', 'Nobody', 'The train'];
const acts = ['plays the guitar', 'is late again', 'runs across the field', 'sells fish'];
const places = ['in the park', 'on Monday', 'near the river', 'without a word', 'in 1984'];
const lines = subjects.flatMap((s) => acts.flatMap((a) => places.map((p) => `${s} ${a} ${p}.`)));

describe('calibrate', () => {
  const output = join(folder, 'sparse.gguf');
  const base = join(folder, 'report');
  let table = '';

  before(() => {
    const args = ['--data', '-', '-o', output, '--report', base, '--rank', '32', '--sentence'];
    const run = wisp(['calibrate', DEFAULT_MODEL_PATH, ...args], lines.join('\n'));
    assert.equal(run.code, 0, run.err);
    table = run.out;
  });

  test('reports on every layer, and on held-out texts', () => {
    assert.match(table, /^layer +computed +needed +recall +precision +output error +hot neurons\n/);
    const report = JSON.parse(readFileSync(`${base}.json`, 'utf8'));
    assert.equal(report.layers.length, 6);
    assert.equal(report.held_out_texts, lines.length / 8);
    for (const layer of report.layers) {
      assert.ok(layer.computed > 0 && layer.computed < 1);
      assert.ok(layer.recall > layer.computed, 'better than chance');
      assert.equal(layer.neurons, 1536);
      assert.ok(layer.hot > 100 && layer.hot < 1536);
    }
    assert.ok(report.mean_cosine > 0.9 && report.mean_cosine < report.dense_mean_cosine);
    const { sentence } = report;
    assert.equal(sentence.layers.length, 6);
    for (const layer of sentence.layers) assert.ok(layer.recall > layer.computed);
    assert.ok(sentence.mean_cosine > 0.8 && sentence.mean_cosine < report.mean_cosine);
    assert.match(table, /\n\none choice for a whole text [^]*\nlayer +computed [^]*\n +5 /);
    const svg = readFileSync(`${base}.svg`, 'utf8');
    assert.match(svg, /^<svg[^]*layer 5[^]*sentence 5[^]*<\/svg>\n$/);
  });

  test('Ctrl-C while the new model is measured ends the program, and leaves the whole model', async () => {
    const path = join(folder, 'measured.gguf');
    const args = ['--data', '-', '-o', path, '--rank', '1', '--tokens', '500', '--threads', '1'];
    const child = spawn(`${ROOT}build/wisp`, ['calibrate', smallModel(), ...args]);
    const ended = once(child, 'exit');
    child.stdin.end(Array.from({ length: 4000 }, (_, i) => `${i} ${lines[i % 97]}`).join('\n'));
    while (!existsSync(path) && child.exitCode === null) await sleep(2);
    child.kill('SIGINT');
    assert.deepEqual(await ended, [130, null]);
    assert.equal(wisp(['inspect', path]).code, 0);
  });

  test('--hot and its kin write what convert makes of the file', () => {
    const texts = shortTexts(64, 0).join('\n');
    const small = smallModel();
    const fit = ['--data', '-', '--rank', '8', '--sparsity', '0.6', '-o'];
    const [plain, direct, converted] = ['plain', 'direct', 'converted'].map((name) =>
      join(folder, `hot-${name}.gguf`),
    );
    assert.equal(wisp(['calibrate', small, ...fit, plain], texts).code, 0);
    for (const hot of [
      ['--hot', '0.5', '--hot-tokens', '60'],
      ['--hot-bytes', '2K'],
    ]) {
      const run = wisp(['calibrate', small, ...hot, ...fit, direct], texts);
      assert.equal(run.code, 0, run.err);
      assert.equal(wisp(['convert', ...hot, plain, converted]).code, 0);
      assert.ok(readFileSync(direct).equals(readFileSync(converted)), hot.join(' '));
      assert.ok(!readFileSync(direct).equals(readFileSync(plain)));
    }
    const both = wisp(
      ['calibrate', small, '--hot', '0.5', '--hot-bytes', '2K', ...fit, direct],
      texts,
    );
    assert.equal(both.code, 2);
    assert.match(both.err, /hot_bytes/);
  });

  test('embed reads cold neurons when texts need them', () => {
    const cold = join(folder, 'cold.gguf');
    assert.equal(wisp(['convert', '--hot', '0.6', output, cold]).code, 0);
    const text = lines.join('\n');
    /** @param {string[]} args */
    const embed = (...args) =>
      wisp(['embed', '-m', cold, '--predictor', 'lowrank', '--format', 'f32', ...args], text);
    const whole = embed();
    const waiting = embed('--cold', 'wait', '--stats');
    assert.equal(waiting.code, 0, waiting.err);
    assert.deepEqual(waiting.bytes, whole.bytes);
    assert.match(waiting.err, /\nneurons in memory: hot \d+ .* 0 evictions of 64; [1-9]\d* reads/);

    const small = wisp(['embed', '-m', cold, '--cold', 'wait', '--memory', '1K', '--text', 'a']);
    assert.equal(small.code, 2, small.err);
    const least = Number(/(\d+) bytes are always in memory/.exec(small.err)?.[1]);
    const limited = embed('--cold', 'wait', '--memory', `${least + 600_000}`, '--stats');
    assert.equal(limited.code, 0, limited.err);
    assert.deepEqual(limited.bytes, whole.bytes);
    assert.match(limited.err, / [1-9]\d* evictions of 64; /);

    const skipping = embed('--cold', 'skip');
    assert.equal(skipping.code, 0, skipping.err);
    assert.match(skipping.err, /wisp: [1-9]\d* neurons were skipped/);
    assert.notDeepEqual(skipping.bytes, whole.bytes);
    for (const args of [
      ['--cold', 'melt'],
      ['--memory', '5M'],
      ['--cold', 'wait', '--memory', '5X'],
    ])
      assert.equal(wisp(['embed', '-m', cold, ...args, '--text', 'a']).code, 2);
  });

  test('embed skips neurons, as many as asked for', () => {
    /** @param {string} sparsity */
    const computed = (sparsity) => {
      const args = ['--predictor', 'lowrank', '--sparsity', sparsity, '--stats'];
      const { err } = wisp(['embed', '-m', output, ...args], lines.join('\n'));
      const shares = [...err.matchAll(/([\d.]+) % of the neurons computed/g)];
      assert.equal(shares.length, 6);
      return shares.reduce((sum, [, share]) => sum + Number(share) / 600, 0);
    };
    const few = computed('0.9'),
      more = computed('0.8');
    assert.ok(Math.abs(few - 0.1) < 0.03);
    assert.ok(more > few && more < 0.23, 'or less: of few texts most neurons have nothing to give');
  });

  test('embed chooses once for a text', () => {
    const args = ['--predictor', 'sentence', '--sparsity', '0.6', '--stats', '-m', output];
    const { err } = wisp(['embed', ...args], lines.join('\n'));
    const shares = [...err.matchAll(/([\d.]+) % of the neurons computed/g)];
    assert.equal(shares.length, 6);
    const mean = shares.reduce((sum, [, share]) => sum + Number(share) / 600, 0);
    assert.ok(Math.abs(mean - 0.4) < 0.1, `${mean}`);
    const without = wisp(['embed', '--predictor', 'sentence', '--text', 'a']);
    assert.equal(without.code, 3);
    assert.match(without.err, /ffn_sentence_p\.weight.*wisp calibrate --sentence/);
  });

  test('embed --recall compares the predictor with all activations', () => {
    /** @param {string} predictor @returns {number[][]} needed, recall and precision by layer */
    const recall = (predictor) => {
      const args = ['-m', output, '--predictor', predictor, '--recall'];
      const { err } = wisp(['embed', ...args], lines.join('\n'));
      const found = err.matchAll(/; ([\d.]+) % needed: recall ([\d.]+) %, precision ([\d.]+) %$/gm);
      return [...found].map((numbers) => numbers.slice(1).map(Number));
    };
    const [exact, lowrank] = [recall('exact'), recall('lowrank')];
    assert.equal(exact.length, 6);
    assert.ok(exact.every(([needed, found, precise]) => found === 100 && precise === needed));
    assert.equal(lowrank.length, 6);
    assert.ok(lowrank.every(([, found, precise]) => found > 50 && found < 100 && precise > 30));
    assert.deepEqual(recall('dense'), []);
  });

  test('the package skips the same in 4 workers as in one instance', async () => {
    const bytes = new Uint8Array(readFileSync(output));
    for (const sparsity of [0.8, 0.5]) {
      const engine = await Engine.open(await compileBuild(pickBuild()), bytes, { sparsity });
      const expected = engine.embed(lines);
      const { layers } = engine.stats();
      engine.close();
      const embedder = await Embedder.load(output, { workers: 4, sparsity: 0.3 });
      await embedder.setSparse({ sparsity });
      assert.deepEqual(new Float32Array((await embedder.embed(lines)).buffer), expected);
      embedder.stats().layers.forEach((layer, i) => {
        assert.deepEqual({ ...layer, seconds: 0 }, { ...layers[i], seconds: 0 });
      });
      await embedder.close();
    }
  });

  test('inspect draws its neurons', () => {
    const { out } = wisp(['inspect', '--neurons', output]);
    assert.equal(out.match(/<rect x/g)?.length, 6 * 768); // two of 1,536 neurons to a column
    assert.match(out, /^<svg[^>]* width="858"/);
    assert.equal(wisp(['inspect', '--neurons', DEFAULT_MODEL_PATH]).code, 3);
  });

  test('convert sets another sparsity, and takes everything away again', () => {
    const path = join(folder, 'other.gguf');
    assert.equal(wisp(['convert', '--sparsity', '0.6', output, path]).code, 0);
    assert.match(wisp(['inspect', path]).out, /wisp\.sparse\.share +0\.4\n/);
    assert.equal(wisp(['convert', '--plain', output, path]).code, 0);
    assert.deepEqual(readFileSync(path), readFileSync(DEFAULT_MODEL_PATH));
    assert.equal(wisp(['convert', '--sparsity', '0.6', DEFAULT_MODEL_PATH, path]).code, 3);
  });

  test('writes predictors in the form that is asked for', { skip: onlyInAll }, () => {
    const path = join(folder, 'form.gguf');
    const form = ['--rank', '32', '--predictor-type', 'q4_0', '--samples', '40'];
    const args = ['calibrate', DEFAULT_MODEL_PATH, '--data', '-', '-o', path, ...form];
    const run = wisp(args, lines.join('\n'));
    assert.equal(run.code, 0, run.err);
    const { out } = wisp(['inspect', path]);
    assert.match(out, /^ +blk\.5\.ffn_predictor_p\.weight +Q4_0 /m);
    assert.match(out, /^ +blk\.5\.ffn_predictor_q\.weight +Q4_0 /m);
    const wrong = wisp([...args, '--predictor-type', 'q5_0'], lines.join('\n'));
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /q5_0 is not one of f32, q8_0, q4_0/);
    const odd = wisp(
      ['calibrate', DEFAULT_MODEL_PATH, '--data', '-', '-o', path, '--rank', '48'],
      'a',
    );
    assert.equal(odd.code, 2);
    assert.match(odd.err, /48 is not a multiple of 32/);
  });

  test('explains wrong usage, and writes nothing then', () => {
    const never = join(folder, 'never.gguf');
    const data = join(folder, 'data.txt');
    writeFileSync(data, 'one line\n');
    assert.equal(wisp(['calibrate', DEFAULT_MODEL_PATH, '--data', data]).code, 2);
    assert.equal(wisp(['calibrate', '--help']).code, 0);
    const few = wisp(['calibrate', DEFAULT_MODEL_PATH, '--data', data, '-o', never]);
    assert.equal(few.code, 2);
    assert.match(few.err, /at least 64 are needed/);
    assert.equal(wisp(['embed', '--predictor', 'lowrank', '--text', 'a']).code, 3);
    assert.equal(wisp(['embed', '--predictor', 'wrong', '--text', 'a']).code, 2);
    assert.equal(wisp(['embed', '--sparsity', '2', '--text', 'a']).code, 2);
    assert.ok(!existsSync(never));
  });
});
