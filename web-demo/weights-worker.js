// SPDX-License-Identifier: Apache-2.0
// Runs commands of the program wisp on files that the user gives, and posts what each prints.
import { ProgramSystem } from '../js/program/program-system.js';
import { fileSystemOf } from './given-files.js';

/** Thrown instead of the program's end. */
class Ended extends Error {
  /** @param {number} code */
  constructor(code) {
    super(`exit code ${code}`);
    this.code = code;
  }
}

/** @type {Promise<WebAssembly.Module> | undefined} */
let compiled;
const compile = () =>
  (compiled ??= WebAssembly.compileStreaming(
    fetch(new URL('../js/wisp-program.wasm', import.meta.url)),
  ));

/**
 * @param {string[]} args
 * @param {Map<string, Blob>} files
 * @returns {Promise<{ code: number, output: string, errors: string }>}
 */
async function run(args, files) {
  const result = { code: 0, output: '', errors: '' };
  const fs = fileSystemOf(files, (text, isError) => {
    result[isError ? 'errors' : 'output'] += text;
  });
  const exit = (/** @type {number} */ code) => {
    throw new Ended(code);
  };
  const surroundings = { fs, pid: 1, isTerminal: () => false, exit };
  try {
    const system = new ProgramSystem(['wisp', ...args], [], new Int32Array(2), surroundings);
    await system.run(await compile());
  } catch (error) {
    if (!(error instanceof Ended)) throw error;
    result.code = error.code;
  }
  return result;
}

/** Commands run one after the other, in the order of their messages. */
let last = Promise.resolve();
addEventListener('message', ({ data: { args, files } }) => {
  last = last.then(async () => {
    try {
      postMessage(await run(args, new Map(files)));
    } catch (error) {
      postMessage({ code: -1, output: '', errors: String(error) });
    }
  });
});
