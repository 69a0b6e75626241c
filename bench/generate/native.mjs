// SPDX-License-Identifier: Apache-2.0
// Generating natively, wisp beside llama.cpp and ik_llama.cpp on the same GGUF files, in turn. With --only also the
// package's Generator in Node, by native code (node-native) or WebAssembly (node-wasm):
//   node bench/generate/native.mjs [--shapes qwen3-0.6b,lfm2-350m] [--types Q8_0,Q4_0] [--models FILE,...] [--threads 1,2]
//     [--prompt 512] [--tokens 64] [--rounds 3] [--llama PROGRAM] [--ik PROGRAM] [--only wisp] [--peaks] [--json FILE]
// Shapes have random weights; --models names files instead. PROGRAM is llama_speed, compiled for each of the two as
// llama_speed.c says. What runs is named with its options, each behind a colon: of the program for wisp, of Generator.load
// for Node, of llama_speed for the others: --only wisp,wisp:cpu=avx2:cache-type=int8,node-wasm:cacheType=f32,ik:flash:q8_0
// Run `make native` first (`make addon wasm` for Node). Each run is a process of its own, whose file is in the page
// cache. --peaks measures resident memory, for which wisp runs once more.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { SHAPES, writeModel } from './model.mjs';
import { median } from '../median.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { values } = parseArgs({
  options: {
    shapes: { type: 'string', default: 'qwen3-0.6b,llama-3.2-1b,lfm2-350m' },
    types: { type: 'string', default: 'Q8_0,Q4_0' },
    threads: { type: 'string', default: '1,2' },
    prompt: { type: 'string', default: '512' },
    tokens: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '3' },
    models: { type: 'string' },
    llama: { type: 'string' },
    ik: { type: 'string' },
    only: { type: 'string', default: 'wisp,llama.cpp' },
    peaks: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});
const promptTokens = Number(values.prompt);

/** Letters, of which each is a token. Prompts differ from their first word on. @param {number} n @param {number} round */
const lettersOf = (n, round) =>
  Array.from({ length: n }, (_, i) => String.fromCharCode(97 + ((i * i + 7 * round) % 26))).join(
    ' ',
  );

/**
 * Runs a program on a prompt. Resolves with what it printed and its peak of resident memory.
 * @param {string[]} command
 * @param {string} prompt
 * @returns {Promise<{ output: string, errors: string, peakMB: number }>}
 */
function run([program, ...words], prompt) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { cwd: fileURLToPath(new URL('..', import.meta.url)) });
    let output = '';
    let errors = '';
    let peakMB = 0;
    const watch = setInterval(() => {
      const status = existsSync(`/proc/${child.pid}/status`)
        ? readFileSync(`/proc/${child.pid}/status`, 'utf8')
        : '';
      peakMB = Math.max(peakMB, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1.024e-3); // of KiB
    }, 20);
    child.stdout.on('data', (data) => (output += data));
    child.stderr.on('data', (data) => (errors += data));
    child.on('error', reject);
    child.on('close', (code) => {
      clearInterval(watch);
      if (code === 0) resolve({ output, errors, peakMB });
      else reject(new Error(`${program} ${words.join(' ')} ended with ${code}: ${errors}`));
    });
    child.stdin.end(prompt);
  });
}

/**
 * @typedef {object} Run
 * @property {number} promptPerSecond
 * @property {number} firstMs
 * @property {number} perSecond
 * @property {number} [peakMB] of resident memory
 * @property {number} [memoryShare] of the bandwidth of memory, while text is written
 */

/**
 * Runs `wisp generate`. Resolves with its peak of memory and the statistics, if it was asked for them.
 * @param {string} model
 * @param {string} threads
 * @param {string} tokens
 * @param {string[]} options
 * @param {string} prompt
 */
async function generate(model, threads, tokens, options, prompt) {
  const command = [`${ROOT}build/wisp`, 'generate', '-m', model, '-t', threads, '-n', tokens];
  const { errors, peakMB } = await run([...command, ...options], prompt);
  const number = (/** @type {RegExp} */ pattern) => Number(pattern.exec(errors)?.[1]);
  return {
    promptTokens: number(/prompt: (\d+) tokens/),
    promptPerSecond: number(/prompt: .*, ([\d.]+) tokens\/s/),
    firstMs: 1000 * number(/first token: ([\d.]+) s/),
    tokens: number(/text: +(\d+) tokens/),
    perSecond: number(/text: .*, ([\d.]+) tokens\/s/),
    memoryShare: number(/, (\d+) % of the/) / 100,
    peakMB,
  };
}

/**
 * Runs llama_speed for a round.
 * @param {string | undefined} program
 * @param {string} model
 * @param {string} threads
 * @param {string[]} options
 * @returns {Promise<Run>}
 */
async function speed(program, model, threads, options) {
  if (!program) throw new Error('say where llama_speed is: --llama PROGRAM, --ik PROGRAM');
  const words = [dirname(program), model, threads, values.prompt, values.tokens, '1', ...options];
  const { output, peakMB } = await run([program, ...words], '');
  const [promptPerSecond, perSecond] = output.split(' ').map(Number);
  return { promptPerSecond, firstMs: (1000 * promptTokens) / promptPerSecond, perSecond, peakMB };
}

/** @type {Record<string, (model: string, threads: string, prompt: string, options: string[]) => Promise<Run>>} */
const peers = {
  async wisp(model, threads, prompt, options) {
    const long = options.map((option) => `--${option}`);
    const result = await generate(model, threads, values.tokens, [...long, '--stats'], prompt);
    if (result.promptTokens !== promptTokens || result.tokens !== Number(values.tokens))
      throw new Error(`${model}: ${result.promptTokens} and ${result.tokens} tokens`);
    if (!values.peaks) return { ...result, peakMB: undefined };
    const { peakMB } = await generate(model, threads, values.tokens, long, prompt); // --stats has memory of its own
    return { ...result, peakMB };
  },
  'llama.cpp': (model, threads, _, options) => speed(values.llama, model, threads, options),
  ik: (model, threads, _, options) => speed(values.ik, model, threads, options),
  'node-native': (model, threads, prompt, options) =>
    script('node.mjs', [model, threads, values.tokens, 'native', ...options], prompt),
  'node-wasm': (model, threads, prompt, options) =>
    script('node.mjs', [model, threads, values.tokens, 'wasm', ...options], prompt),
};

/**
 * Runs a script that prints a line of JSON.
 * @param {string} name
 * @param {string[]} words
 * @param {string} prompt
 */
async function script(name, words, prompt) {
  const path = fileURLToPath(new URL(name, import.meta.url));
  const result = JSON.parse((await run([process.execPath, path, ...words], prompt)).output);
  if (result.promptTokens !== promptTokens) throw new Error(`${result.promptTokens} tokens`);
  return result;
}

/** @returns {{ name: string, path: string }[]} the files to run, of which those of shapes are written if they are not there */
function filesOf() {
  if (values.models)
    return values.models.split(',').map((path) => ({ name: basename(path, '.gguf'), path }));
  const folder = `${ROOT}build/bench`;
  mkdirSync(folder, { recursive: true });
  return values.shapes.split(',').flatMap((shape) =>
    values.types.split(',').map((type) => {
      const path = `${folder}/${shape}-${type}.gguf`;
      if (!existsSync(path)) writeModel(path, SHAPES[shape], type);
      return { name: `${shape} ${type}`, path };
    }),
  );
}

/** @type {(Omit<Run, 'firstMs'> & { model: string, threads: number, peer: string, fileMB: number, runs: Run[] })[]} */
const rows = [];
const names = values.only.split(',');
for (const { name: model, path } of filesOf()) {
  readFileSync(path); // brings it into the page cache
  const { promptTokens: counted } = await generate(path, '1', '1', ['--stats'], lettersOf(8, 0));
  const letters = promptTokens - (counted - 8); // some models put a token before the text
  for (const threads of values.threads.split(',')) {
    const runs = names.map(() => /** @type {Run[]} */ ([]));
    for (let round = 0; round < Number(values.rounds); round++)
      for (const i of names.map((_, at) => (at + round) % names.length)) {
        process.stderr.write(`\r${model}, threads: ${threads}, round ${round}, ${names[i]}\x1b[K`);
        const [peer, ...options] = names[i].split(':');
        runs[i].push(await peers[peer](path, threads, lettersOf(letters, round), options));
      }
    names.forEach((peer, i) => {
      const of = (/** @type {keyof Run} */ key) => median(runs[i].map((r) => r[key] ?? NaN));
      rows.push({
        model,
        threads: Number(threads),
        peer,
        promptPerSecond: of('promptPerSecond'),
        perSecond: of('perSecond'),
        memoryShare: of('memoryShare'),
        peakMB: of('peakMB'),
        fileMB: statSync(path).size / 1e6,
        runs: runs[i],
      });
    });
  }
}
process.stderr.write('\n');
const report = { when: new Date().toISOString(), cpu: cpus()[0].model, ...values, rows };
if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
console.log(`Prompts of ${values.prompt} tokens, ${values.tokens} tokens of text, medians of ${values.rounds} rounds\n`); // prettier-ignore
console.log('| model | threads | | prompt, tokens/s | text, tokens/s | of memory bandwidth | peak MB |\n|---|---|---|---|---|---|---|'); // prettier-ignore
/** @param {number | undefined} value @param {number} digits */
const shown = (value, digits) =>
  value === undefined || Number.isNaN(value) ? '' : value.toFixed(digits);
for (const row of rows)
  console.log(`| ${row.model} (${row.fileMB.toFixed(0)} MB) | ${row.threads} | ${row.peer} | ${row.promptPerSecond.toFixed(0)} | ${row.perSecond.toFixed(1)} | ${shown(row.memoryShare, 2)} | ${shown(row.peakMB, 0)} |`); // prettier-ignore
