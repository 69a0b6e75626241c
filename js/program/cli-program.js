// SPDX-License-Identifier: Apache-2.0
// Commands that are those of the program wisp (src/cli): the native one if its package is installed, else the module
// wisp-program.wasm.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { WispError, isEngineLimit, outOfMemory } from '../base/errors.js';
import { folderFromHub } from '../hub/hub-node.js';
import { PACKAGES, loadAddon } from '../native/addon-node.js';
import { compileRead } from '../platform/platform-node.js';
import { EXIT } from './cli-console.js';
import { modelOf } from './cli-models.js';
import { FLAG, SIGNAL } from './program-system.js';

const SIGNALS = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);

/** @param {string} name of a model in the package */
const own = (name) => fileURLToPath(new URL(`../../models/${name}.gguf`, import.meta.url));

/** The models that commands take if none is named. The program looks for them beside itself, if they are not. */
const MODELS = {
  WISP_MODEL: process.env.WISP_MODEL ?? own('wisp-default'),
  WISP_GENERATOR: process.env.WISP_GENERATOR ?? own('wisp-stories'),
};

/**
 * Returns the path of the program wisp, if the package for this platform has one and is of this version. Not if
 * programs import it: Next.js' Turbopack wants to resolve such names when it builds.
 * @returns {string | undefined}
 */
function findProgram() {
  for (const name of PACKAGES) {
    if (!loadAddon(name).addon) continue;
    const program = join(dirname(createRequire(import.meta.url).resolve(name)), 'wisp');
    if (existsSync(program)) return program;
  }
  return undefined;
}

/**
 * @param {string} name of a command
 * @param {(args: string[]) => Promise<number>} [without] runs it without the program; else the module does
 */
export const command = (name, without) => ({
  /** @param {string[]} args @returns {Promise<number>} the exit code */
  async run(args) {
    const program = findProgram();
    if (program) return runNative(program, [name, ...args]);
    if (without) return without(args);
    return runModule([name, ...(await Promise.all(args.map((arg) => placed(name, arg))))]);
  },
});

/**
 * Replaces the name of a model on the Hub by its path: the module has no connections. Models are made of what was
 * trained, and other commands take a GGUF file, if there is one.
 * @param {string} command
 * @param {string} argument
 */
async function placed(command, argument) {
  const [, option = '', name] = /^(--model=)?(hf:.*)$/i.exec(argument) ?? [];
  if (!name) return argument;
  if (/^(quantize|calibrate)$/.test(command)) return option + (await folderFromHub(name));
  return option + (await modelOf(name));
}

/**
 * @param {string} program its path
 * @param {string[]} args
 * @returns {Promise<number>}
 */
function runNative(program, args) {
  const env = { ...process.env, ...MODELS };
  const child = spawn(program, args, { stdio: 'inherit', argv0: 'wisp', env });
  // A terminal sends its signal to the child, too. The program takes one of each kind as a request to stop, so that
  // one of another kind does no harm.
  for (const name of SIGNALS) process.once(name, () => child.kill('SIGTERM'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']),
    );
  });
}

/** The most bytes of a line that is typed. */
const MOST_TYPED = 1 << 16;

/** Lines that were typed, the latest first. @type {string[]} */
let typedLines = [];

/**
 * Lets the user of a terminal edit a line.
 * @param {string} prompt
 * @returns {Promise<{ line?: string, interrupted?: boolean }>} no line at the end of the input
 */
function readLine(prompt) {
  const editor = createInterface({
    input: process.stdin,
    output: process.stderr,
    terminal: true,
    history: typedLines,
    removeHistoryDuplicates: true,
  });
  editor.on('history', (lines) => (typedLines = [...lines]));
  // The terminal is as it was while the reply is written, so that Ctrl-C ends it.
  return new Promise((resolve) => {
    editor.once('close', () => resolve({}));
    editor.once('SIGINT', () => (resolve({ interrupted: true }), editor.close()));
    editor.question(prompt, (line) => (resolve({ line }), editor.close()));
  });
}

/** @param {string[]} args @returns {Promise<number>} */
async function runModule(args) {
  const module = await compileRead(() => new URL('../wisp-program.wasm', import.meta.url));
  const flags = new Int32Array(new SharedArrayBuffer(12));
  const line = new Uint8Array(new SharedArrayBuffer(MOST_TYPED));
  const variables = Object.entries(MODELS).map((pair) => pair.join('='));
  const worker = new Worker(new URL('./program-worker.js', import.meta.url), {
    workerData: { module, args: ['wisp', ...args], variables, flags, line },
  });
  worker.on('message', async ({ prompt }) => {
    let typed = await readLine(prompt);
    while (Buffer.byteLength(typed.line ?? '') > MOST_TYPED) {
      process.stderr.write(`wisp: a line has at most ${MOST_TYPED} bytes\n`);
      typed = await readLine(prompt);
    }
    const bytes = Buffer.from(typed.line ?? '');
    line.set(bytes);
    if (typed.interrupted) Atomics.store(flags, FLAG.interrupted, SIGNAL.interrupt);
    Atomics.store(flags, FLAG.typed, typed.line === undefined ? -1 : bytes.length);
    Atomics.notify(flags, FLAG.typed);
  });
  // The second signal of a kind ends the program, as it does by default, unless the program went on after the first.
  /** @type {Set<string>} */
  const came = new Set();
  for (const name of SIGNALS) {
    process.on(name, () => {
      const isSecond = came.has(name) && Atomics.load(flags, FLAG.interrupted) !== 0;
      if (isSecond || Atomics.load(flags, FLAG.waits)) process.exit(EXIT.interrupted);
      came.add(name);
      const signal = name === 'SIGINT' ? SIGNAL.interrupt : SIGNAL.end;
      Atomics.store(flags, FLAG.interrupted, signal);
      Atomics.notify(flags, FLAG.interrupted);
    });
  }
  return new Promise((resolve, reject) => {
    worker.once('exit', resolve);
    worker.once('error', (cause) => {
      if (isEngineLimit(cause)) return reject(outOfMemory('an instance of the module', cause));
      reject(new WispError('trap', `the WebAssembly instance failed: ${cause.message}`, { cause }));
    });
  });
}
