// SPDX-License-Identifier: Apache-2.0
// `wisp-engine convert`: says what converts models, which this package has no code for.
import { Complaint, EXIT, parse, print } from './cli-console.js';

const HELP = `usage: wisp-engine convert

The package has no converter, because it reads GGUF files alone. A GGUF file of a Hugging Face
folder (config.json, model.safetensors, the tokenizer's files) is made

  - by the program wisp, which a C compiler and make build from wisp's source:
        make && build/wisp convert FOLDER model.gguf
  - by convert_hf_to_gguf.py of llama.cpp, in Python

Many models are on the Hugging Face Hub as GGUF files: wisp-engine embed --model hf:owner/name
`;

/** @param {string[]} args @returns {Promise<number>} */
export async function run(args) {
  const { values } = parse('convert', args, { help: { type: 'boolean', short: 'h' } });
  if (values.help) return (await print(HELP), EXIT.good);
  throw new Complaint(
    EXIT.usage,
    'convert: the package has no converter. The program wisp has one (wisp convert FOLDER model.gguf), ' +
      'and wisp-engine convert --help says what else makes GGUF files',
  );
}
