// SPDX-License-Identifier: Apache-2.0
// `wisp-engine convert`: writes a GGUF file of a Hugging Face folder, with the options and bytes of `wisp convert`.
import { fstatSync, statSync } from 'node:fs';
import { convert } from '../convert-node.js';
import { Complaint, EXIT, Progress, byteCount, parse, print, wholeNumber, wrongUsage } from './cli-console.js'; // prettier-ignore

const HELP = `usage: wisp-engine convert [OPTION]... INPUT OUTPUT

Writes a GGUF file from a Hugging Face folder or another GGUF file. INPUT is a path, a URL, or
hf:owner/name[@revision] on the Hugging Face Hub. OUTPUT appears complete or not at all.

      --type TYPE            type of the weights: f32, f16, q8_0 or q4_0 (default: keep)
      --embedding-type TYPE  type of the token embeddings (default: as --type)
      --sparsity SHARE       the default sparsity of a calibrated model
      --neurons              store the weights of each feed-forward neuron together, as
                             wisp calibrate does
      --hot SHARE            choose the hot neurons of a calibrated model, which are stored at
                             the beginning of the file: in each layer the fewest that account
                             for SHARE of all needed activations (wisp calibrate: 0.9). Implies
                             --neurons
      --hot-bytes BYTES      instead choose the most often needed neurons of all layers that fit
                             BYTES, such as 3M. Implies --neurons
      --hot-tokens N         store the embeddings of the N tokens most frequent in calibration
                             at the beginning, too, and the others at the end
      --plain                remove what wisp calibrate added, and store plain matrices
      --name NAME            the model's name in the file (default: keep)
  -f, --force                replace an existing file that is not a GGUF file
  -h, --help                 this text

Exit codes: see wisp-engine embed --help.
`;

const OPTIONS = /** @type {const} */ ({
  type: { type: 'string' },
  'embedding-type': { type: 'string' },
  sparsity: { type: 'string' },
  neurons: { type: 'boolean' },
  hot: { type: 'string' },
  'hot-bytes': { type: 'string' },
  'hot-tokens': { type: 'string' },
  plain: { type: 'boolean' },
  name: { type: 'string' },
  force: { type: 'boolean', short: 'f' },
  help: { type: 'boolean', short: 'h' },
});

/** @param {string[]} args @returns {Promise<number>} the exit code */
export async function run(args) {
  const { values, positionals } = parse('convert', args, OPTIONS);
  if (values.help) return (await print(HELP), EXIT.good);
  const settings = {
    type: /** @type {any} */ (values.type),
    embeddingType: /** @type {any} */ (values['embedding-type']),
    name: values.name,
    plain: values.plain,
    neurons: values.neurons,
    hot: share('hot', values.hot),
    hotBytes: byteCount('hot-bytes', values['hot-bytes']),
    hotTokens: wholeNumber('hot-tokens', values['hot-tokens'], 1, 2 ** 32 - 1),
    sparsity: share('sparsity', values.sparsity),
  };
  if (positionals.length !== 2) {
    throw wrongUsage('convert: give one input and one output (see --help)');
  }
  const [input, output] = positionals;
  if (input === '') throw wrongUsage('input: the path is empty');
  checkOutput(output);

  const stop = new AbortController();
  // The second signal ends the program, as it does by default.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => stop.abort());
  const progress = new Progress();
  const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(1);
  try {
    await convert(input, {
      ...settings,
      output,
      force: values.force,
      signal: stop.signal,
      onProgress: ({ phase, loaded, total }) =>
        progress.show(() => {
          if (phase === 'tensors') return `${loaded} of ${total} tensors`;
          const of = total === undefined ? '' : ` of ${megabytes(total)}`;
          return `fetching the model: ${megabytes(loaded)}${of} MB`;
        }),
    });
  } finally {
    progress.end();
  }
  return EXIT.good;
}

/** @param {string} option @param {string | undefined} text */
function share(option, text) {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== '' && Math.fround(value) > 0 && Math.fround(value) < 1) return value;
  throw wrongUsage(`--${option} ${text}: expected a number above 0 and below 1`);
}

/** @param {string} path */
function checkOutput(path) {
  if (path === '') throw wrongUsage('output: the path is empty');
  const found = statSync(path, { throwIfNoEntry: false });
  const output = fstatSync(1);
  if (found && output.isFile() && found.dev === output.dev && found.ino === output.ino) {
    throw new Complaint(EXIT.failed, `output: ${path} is the standard output, too`);
  }
}
