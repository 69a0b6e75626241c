#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// `npx wisp-engine COMMAND`, for those without a compiler.
import { VERSION } from './base/version.js';
import { findAddon } from './native/addon-node.js';
import { EXIT, complainOf, print, wrongUsage } from './program/cli-console.js';

const HELP = `usage: wisp-engine COMMAND [OPTION]...

Embeds, searches and generates texts, and converts models, with the package wisp-engine.

  embed        embed lines of text
  similarity   find the lines nearest in meaning to a query, or score pairs of texts
  rerank       find the lines that answer a query best, with a cross-encoder
  index        make an index of texts, add to it and remove from it
  search       find the entries of an index nearest in meaning to queries
  generate     continue a text, or talk
  tokenize     print the token ids of texts
  convert      write a GGUF file from a Hugging Face folder or another GGUF file
  quantize     quantise a model as llama.cpp does, or measure what that loses
  calibrate    make a model sparse: let it compute only the neurons that matter
  inspect      list what is in a model file
  eval         measure a model: sentence similarity, perplexity, multiple choice
  pull         fetch models of the Hugging Face Hub
  list         list the models that were fetched, or remove some
  doctor       look at this machine: what makes wisp slow here (Linux)
  udf          write a WebAssembly module with a model inside, for databases
  serve        answer requests for embeddings over HTTP
  serve-demo   serve pages that use wisp, for this machine only

wisp-engine COMMAND --help describes a command; --version says what computes here. Commands but
embed, convert, udf, serve and serve-demo are those of the native program wisp, and print its name.
`;

/** Commands of the native program that the package has for every platform (wasm/program/commands.c). */
const PROGRAM = [
  ...['similarity', 'rerank', 'index', 'search', 'generate', 'tokenize', 'quantize', 'calibrate'],
  ...['inspect', 'eval'],
];

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
// Those that have other ways where the program is not installed.
for (const name of /** @type {const} */ (['pull', 'list', 'doctor']))
  COMMANDS[name] = async () => {
    const { [name]: without } = await import('./program/cli-models.js');
    return (await import('./program/cli-program.js')).command(name, without);
  };

/** @param {string[]} args @returns {Promise<number>} the exit code */
async function run([name, ...args]) {
  if (name === undefined) {
    process.stderr.write(HELP);
    return EXIT.usage;
  }
  if (Object.hasOwn(COMMANDS, name)) return (await COMMANDS[name]()).run(args);
  if (['--help', '-h', 'help'].includes(name)) return (await print(HELP), EXIT.good);
  if (name !== '--version')
    throw wrongUsage(`there is no command ${name} (see wisp-engine --help)`);
  const { addon, reason } = findAddon({});
  const backend = addon ? `native code: ${reason}` : `WebAssembly: ${reason}`;
  await print(`wisp-engine ${VERSION} (Node ${process.versions.node})\n${backend}\n`);
  return EXIT.good;
}

// A read that is under way keeps Node running, so it does not exit by itself.
process.exit(await run(process.argv.slice(2)).catch(complainOf));
