#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// `npx wisp-engine COMMAND`, for those without a compiler.
import { VERSION } from './base/version.js';
import { findAddon } from './native/addon-node.js';
import { EXIT, complainOf, print, wrongUsage } from './program/cli-console.js';

const HELP = `usage: wisp-engine COMMAND [OPTION]...

Embeds texts and converts models with the package wisp-engine.

  embed        embed lines of text
  convert      write a GGUF file from a Hugging Face folder or another GGUF file
  udf          write a WebAssembly module with a model inside, for databases
  quantize     quantise a model as llama.cpp does, or measure what that loses
  calibrate    make a model sparse: let it compute only the neurons that matter
  inspect      list what is in a model file
  tokenize     print the token ids of texts
  eval         measure a model: sentence similarity, perplexity, multiple choice
  serve        answer requests for embeddings over HTTP
  serve-demo   serve pages that use wisp, for this machine only

wisp-engine COMMAND --help describes a command; --version says what computes here. The commands from
quantize to eval are those of the native program wisp, and print its name. Its other commands, such as
search and generate, are not in this package: "make" builds the program from its sources.
`;

/** Commands of the native program (src/cli/commands.c) that the package does not have. */
const NATIVE = ['similarity', 'rerank', 'index', 'search', 'generate', 'pull', 'list', 'doctor'];

/** Commands of the native program that the package has (wasm/program/commands.c). */
const PROGRAM = ['quantize', 'calibrate', 'inspect', 'tokenize', 'eval'];

/** @type {Record<string, () => Promise<{ run(args: string[]): Promise<number> }>>} */
const COMMANDS = {
  embed: () => import('./program/cli-embed.js'),
  'serve-demo': () => import('./program/cli-demo.js'),
  serve: () => import('./program/cli-serve.js'),
  convert: () => import('./program/cli-convert.js'),
  udf: () => import('./program/cli-udf.js'),
};
for (const name of PROGRAM)
  COMMANDS[name] = async () => (await import('./program/cli-program.js')).command(name);

/** @param {string[]} args @returns {Promise<number>} the exit code */
async function run([name, ...args]) {
  if (name === undefined) {
    process.stderr.write(HELP);
    return EXIT.usage;
  }
  if (Object.hasOwn(COMMANDS, name)) return (await COMMANDS[name]()).run(args);
  if (['--help', '-h', 'help'].includes(name)) return (await print(HELP), EXIT.good);
  if (NATIVE.includes(name)) {
    throw wrongUsage(
      `${name} is a command of the native program wisp: build that from its sources (make native), ` +
        `then run build/wisp ${name} --help`,
    );
  }
  if (name !== '--version')
    throw wrongUsage(`there is no command ${name} (see wisp-engine --help)`);
  const { addon, reason } = findAddon({});
  const backend = addon ? `native code: ${reason}` : `WebAssembly: ${reason}`;
  await print(`wisp-engine ${VERSION} (Node ${process.versions.node})\n${backend}\n`);
  return EXIT.good;
}

// A read that is under way keeps Node running, so it does not exit by itself.
process.exit(await run(process.argv.slice(2)).catch(complainOf));
