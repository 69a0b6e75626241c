// SPDX-License-Identifier: Apache-2.0
// `wisp-engine embed`: what `wisp embed` does, for those without a compiler.
import { WispError } from '../base/errors.js';
import { Embedder } from '../node.js';
import { embedStream } from '../text/stream.js';
import { EXIT, Progress, byteCount, checkChoice, parse, print, wholeNumber, wrongUsage } from './cli-console.js'; // prettier-ignore
import { entriesOf } from './cli-input.js';
import { FORMATS, Output } from './cli-output.js';

const HELP = `usage: wisp-engine embed [OPTION]... [FILE | - | --text TEXT]...

Embeds each line of the files, or of standard input, as a text. Writes a record for each
text, in order, as soon as it is ready.

      --text TEXT        embed this text (may be given more than once)
      --input FORMAT     lines (default), or ndjson: each line is a JSON string, or an object
                         whose "text" is embedded and whose other fields are kept; blank
                         lines are skipped
      --format FORMAT    text (default): a line of numbers for each text; json: one array of
                         arrays; ndjson: objects with "embedding"; npy; f32: raw
                         little-endian floats; sparse: ndjson whose "embedding" has the
                         "indices" and "values" other than 0, for models of sparse vectors
      --prompt NAME      put this prompt of the model before each text (default: the model's
                         default prompt)
      --prompt-text TEXT put TEXT before each text
      --dimensions N     keep the first N values of each embedding, normalised again
  -m, --model MODEL      a GGUF file, its URL, or hf:owner/name[@revision][/file] on the Hugging
                         Face Hub (default: WISP_MODEL, else the model of the package)
  -t, --workers N        threads that compute (default: one for each core, at most 4); --threads
                         is the same
      --backend NAME     auto (default): native code if its package is installed; native; wasm
      --cpu NAME         a kernel set, for comparisons
      --compute MODE     auto (default), f32, int8, or bf16 (native code, on processors with AMX
                         or AVX512-BF16)
      --predictor NAME   auto (default), dense, exact, lowrank or sentence
      --sparsity SHARE   the share of neurons that a calibrated model skips
      --portable         embed in int8 with the same bits on every machine and in every engine
      --vector-cache DIR keep embeddings in a file in DIR, and read those of texts that were embedded
                         before, as wisp embed does (native code, on Linux and macOS)
      --vector-cache-size BYTES
                         of the file, such as 500M: embeddings used longest ago are replaced
                         (default: 1G)
      --stats            at the end, print totals and the time of each stage to stderr
  -h, --help             this text

Exit code: 0 done, 1 reading or writing failed, 2 wrong usage, 3 the model cannot be used,
4 a line of the input is malformed, 130 interrupted, 141 the output was closed.
`;

const OPTIONS = /** @type {const} */ ({
  text: { type: 'string', multiple: true },
  input: { type: 'string', default: 'lines' },
  format: { type: 'string', default: 'text' },
  prompt: { type: 'string' },
  'prompt-text': { type: 'string' },
  dimensions: { type: 'string' },
  model: { type: 'string', short: 'm' },
  workers: { type: 'string', short: 't' },
  threads: { type: 'string' },
  backend: { type: 'string', default: 'auto' },
  cpu: { type: 'string' },
  compute: { type: 'string' },
  predictor: { type: 'string' },
  sparsity: { type: 'string' },
  portable: { type: 'boolean' },
  'vector-cache': { type: 'string' },
  'vector-cache-size': { type: 'string' },
  stats: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
});

/** @param {string[]} args @returns {Promise<number>} the exit code */
export async function run(args) {
  const { tokens, values } = parse('embed', args, OPTIONS);
  if (values.help) return (await print(HELP), EXIT.good);
  const ndjson = checkChoice('input', values.input, ['lines', 'ndjson']) === 'ndjson';
  const format = checkChoice('format', values.format, FORMATS);
  /** @type {import('./cli-input.js').Item[]} */
  const items = [];
  for (const token of tokens) {
    if (token.kind === 'positional') items.push({ path: token.value });
    else if (token.kind === 'option' && token.name === 'text')
      items.push({ text: token.value ?? '' });
  }
  if (items.length === 0) items.push({ path: '-' });

  const stop = new AbortController();
  // The second signal ends the program, as it does by default.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => stop.abort());
  const progress = new Progress();
  const embedder = await open(values, stop.signal, progress);
  try {
    const options = await promptOf(embedder, values, stop.signal);
    const start = performance.now();
    await embedAll(embedder, entriesOf(items, ndjson), format, options, stop, progress);
    if (values.stats) printStats(embedder, (performance.now() - start) / 1000);
  } finally {
    progress.end();
    await embedder.destroy();
  }
  return EXIT.good;
}

/**
 * @typedef {{ [Name in keyof typeof OPTIONS]?: any }} Values
 */

/**
 * Loads the model that the options of a command name.
 * @param {Values} values
 * @param {AbortSignal} signal
 * @param {Progress} progress
 */
export async function open(values, signal, progress) {
  const { cpu: kernels, compute, predictor, portable, backend, 'vector-cache': vectorCache } = values; // prettier-ignore
  const vectorCacheSize = byteCount('vector-cache-size', values['vector-cache-size']);
  if (vectorCacheSize !== undefined && vectorCache === undefined) {
    throw wrongUsage('--vector-cache-size requires --vector-cache');
  }
  const { model = process.env.WISP_MODEL } = values;
  if (model === '') throw wrongUsage('--model: the path is empty');
  const sparsity = values.sparsity === undefined ? undefined : Number(values.sparsity);
  if (sparsity !== undefined && !(sparsity > 0 && sparsity < 1)) {
    throw wrongUsage(`--sparsity ${values.sparsity}: expected a number above 0 and below 1`);
  }
  if (compute !== undefined) checkChoice('compute', compute, ['auto', 'f32', 'int8', 'bf16']);
  if (predictor !== undefined) {
    checkChoice('predictor', predictor, ['auto', 'dense', 'exact', 'lowrank', 'sentence']);
  }
  const workers = wholeNumber('workers', values.workers ?? values.threads, 0, 1024);
  checkChoice('backend', backend, ['auto', 'native', 'wasm']);
  const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(1);
  try {
    return await Embedder.load(model, {
      kernels,
      compute,
      predictor,
      sparsity,
      portable,
      vectorCache,
      vectorCacheSize,
      workers,
      backend,
      signal,
      onProgress: ({ phase, loaded, total }) => {
        if (phase !== 'model') return;
        const of = total === undefined ? '' : ` of ${megabytes(total)}`;
        progress.show(() => `loading the model: ${megabytes(loaded)}${of} MB`);
      },
    });
  } finally {
    progress.end();
  }
}

/**
 * Returns the options of the calls, after trying them: no text is read if they are wrong.
 * @param {Embedder} embedder
 * @param {Values} values
 * @param {AbortSignal} signal
 * @returns {Promise<{ prompt?: string, before: string, dimensions?: number }>}
 */
async function promptOf(embedder, { prompt, 'prompt-text': before, dimensions: size }, signal) {
  const dimensions = wholeNumber('dimensions', size, 1, embedder.dimensions);
  if (prompt !== undefined && before !== undefined) {
    throw wrongUsage('--prompt and --prompt-text: give one of them');
  }
  // The text of a prompt may be another prompt's name for embed(), so texts have it before they are given.
  if (before !== undefined) return { prompt: '', before, dimensions };
  if (prompt === undefined) return { before: '', dimensions };
  const none = `--prompt ${prompt}: the model has no prompt of this name; --prompt-text takes a text`;
  if (!/^[\w-]+$/.test(prompt)) throw wrongUsage(none);
  await embedder.embed('', { prompt, signal }).catch((error) => {
    throw error instanceof WispError && error.field === 'prompt' ? wrongUsage(none) : error;
  });
  return { prompt, before: '', dimensions };
}

/**
 * @param {Embedder} embedder
 * @param {AsyncIterable<import('./cli-input.js').Entry>} entries
 * @param {string} format
 * @param {Awaited<ReturnType<typeof promptOf>>} options
 * @param {AbortController} stop
 * @param {Progress} progress
 */
async function embedAll(embedder, entries, format, options, stop, progress) {
  const { prompt, before, dimensions } = options;
  let failure;
  const output = new Output(format, dimensions ?? embedder.dimensions, () => stop.abort());
  await output.open();
  const start = performance.now();
  async function* texts() {
    for await (const { text, kept } of entries) yield { text: before + text, kept };
  }
  try {
    const call = { field: 'text', prompt, dimensions, signal: stop.signal };
    for await (const { index, item, row } of embedStream(embedder, texts(), call)) {
      await output.row(row, item.kept);
      const speed = (1000 * index) / (performance.now() - start);
      progress.show(() => `${index + 1} texts, ${speed.toFixed(0)}/s`);
    }
  } catch (error) {
    failure = { error };
  }
  progress.end();
  // If a write has failed, closing says so: it is why the stream was stopped.
  if (!failure) return output.close();
  await output.stop();
  throw failure.error;
}

/** @param {Embedder} embedder @param {number} seconds */
function printStats(embedder, seconds) {
  const { texts, tokens, truncatedTexts, stageSeconds, workers, backend } = embedder.stats();
  const lines = [
    `${texts} texts (${truncatedTexts} truncated), ${tokens} tokens in ${seconds.toFixed(3)} s: ` +
      `${(texts / seconds).toFixed(0)} texts/s, ${(tokens / seconds).toFixed(0)} tokens/s; ` +
      `${backend}, ${workers} workers; over all of them:`,
  ];
  const total = Object.values(stageSeconds).reduce((sum, each) => sum + each, 0) || 1;
  for (const [name, each] of Object.entries(stageSeconds)) {
    const share = ((100 * each) / total).toFixed(1).padStart(5);
    lines.push(`${name.padEnd(16)} ${each.toFixed(3).padStart(9)} s ${share} %`);
  }
  process.stderr.write(`${lines.join('\n')}\n`);
}
