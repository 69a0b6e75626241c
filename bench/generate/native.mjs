// SPDX-License-Identifier: Apache-2.0
// Generating natively, wisp beside llama.cpp (node-llama-cpp) on the same GGUF files, in turn. With --only also the
// package's Generator in Node, by native code (node-native) or WebAssembly (node-wasm):
//   node bench/generate/native.mjs [--shapes qwen3-0.6b,lfm2-350m] [--types Q8_0,Q4_0] [--threads 1,2]
//     [--prompt 512] [--tokens 64] [--rounds 3] [--cache f32] [--cpu SET] [--only wisp] [--json FILE]
// Weights are random. Run `make native` first (`make addon wasm` for Node), and `npm ci` in bench/ for llama.cpp. Each run is a process
// of its own, whose file is in the page cache.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { SHAPES, writeModel } from './model.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { values } = parseArgs({
  options: {
    shapes: { type: 'string', default: 'qwen3-0.6b,llama-3.2-1b,lfm2-350m' },
    types: { type: 'string', default: 'Q8_0,Q4_0' },
    threads: { type: 'string', default: '1,2' },
    prompt: { type: 'string', default: '512' },
    tokens: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '3' },
    cache: { type: 'string', default: 'f32' },
    cpu: { type: 'string' },
    only: { type: 'string', default: 'wisp,llama.cpp' },
    json: { type: 'string' },
  },
});
const promptTokens = Number(values.prompt);

/** Prompts differ from their first word on. @param {number} round */
const promptOf = (round) =>
  Array.from({ length: promptTokens - 1 }, (_, i) =>
    String.fromCharCode(97 + ((i * i + 7 * round) % 26)),
  ).join(' ');

/** @param {number[]} numbers */
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

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

/** @type {Record<string, (model: string, threads: string, prompt: string, measureMemory: boolean) => Promise<Run>>} */
const peers = {
  async wisp(model, threads, prompt, measureMemory) {
    const command = [`${ROOT}build/wisp`, 'generate', '-m', model, '-t', threads]
      .concat(['-n', values.tokens, '--cache-type', values.cache])
      .concat(values.cpu ? ['--cpu', values.cpu] : []);
    if (measureMemory) {
      const { peakMB } = await run(command, prompt); // --stats has memory of its own
      return { promptPerSecond: NaN, firstMs: NaN, perSecond: NaN, peakMB };
    }
    const { errors } = await run([...command, '--stats'], prompt);
    const number = (/** @type {RegExp} */ pattern) => Number(pattern.exec(errors)?.[1]);
    if (number(/prompt: (\d+) tokens/) !== promptTokens) throw new Error(errors);
    return {
      promptPerSecond: number(/prompt: .*, ([\d.]+) tokens\/s/),
      firstMs: 1000 * number(/first token: ([\d.]+) s/),
      perSecond: number(/text: .*, ([\d.]+) tokens\/s/),
      memoryShare: number(/, (\d+) % of the/) / 100,
    };
  },
  'llama.cpp': (model, threads, prompt) => {
    const context = String(promptTokens + Number(values.tokens) + 8);
    return script('llama.mjs', [model, threads, values.tokens, context], prompt);
  },
  'node-native': (model, threads, prompt) =>
    script('node.mjs', [model, threads, values.tokens, 'native'], prompt),
  'node-wasm': (model, threads, prompt) =>
    script('node.mjs', [model, threads, values.tokens, 'wasm'], prompt),
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

const folder = `${ROOT}build/bench`;
mkdirSync(folder, { recursive: true });
/** @type {(Omit<Run, 'firstMs'> & { shape: string, type: string, threads: number, peer: string, fileMB: number, runs: Run[] })[]} */
const rows = [];
for (const shape of values.shapes.split(','))
  for (const type of values.types.split(',')) {
    const model = `${folder}/${shape}-${type}.gguf`;
    if (!existsSync(model)) writeModel(model, SHAPES[shape], type);
    for (const threads of values.threads.split(',')) {
      const names = values.only.split(',');
      const runs = names.map(() => /** @type {Run[]} */ ([]));
      /** @type {Record<string, number | undefined>} */
      const peaks = {};
      // Round 0 brings the file into the page cache and measures memory.
      for (let round = 0; round <= Number(values.rounds); round++)
        for (const i of names.map((_, at) => (at + round) % names.length)) {
          process.stderr.write(`\r${shape} ${type}, threads: ${threads}, round ${round}, ${names[i]}    `); // prettier-ignore
          const result = await peers[names[i]](model, threads, promptOf(round), round === 0);
          if (round > 0) runs[i].push(result);
          else peaks[names[i]] = result.peakMB;
        }
      names.forEach((peer, i) => {
        const of = (/** @type {keyof Run} */ key) => median(runs[i].map((r) => r[key] ?? NaN));
        rows.push({
          shape,
          type,
          threads: Number(threads),
          peer,
          promptPerSecond: of('promptPerSecond'),
          perSecond: of('perSecond'),
          memoryShare: of('memoryShare'),
          peakMB: peaks[peer],
          fileMB: statSync(model).size / 1e6,
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
for (const {
  shape,
  type,
  threads,
  peer,
  promptPerSecond,
  perSecond,
  memoryShare,
  peakMB,
  fileMB,
} of rows) {
  const share =
    memoryShare === undefined || Number.isNaN(memoryShare) ? '' : memoryShare.toFixed(2);
  console.log(`| ${shape} ${type} (${fileMB.toFixed(0)} MB) | ${threads} | ${peer} | ${promptPerSecond.toFixed(0)} | ${perSecond.toFixed(1)} | ${share} | ${peakMB?.toFixed(0)} |`); // prettier-ignore
}
