// SPDX-License-Identifier: Apache-2.0
// Exit codes, messages, options and standard output of all commands of `npx wisp-engine`. Exit codes and messages are those of the program wisp (src/cli).
import { write } from 'node:fs';
import { parseArgs, promisify } from 'node:util';
import { WispError } from '../base/errors.js';
import { reasonOf } from '../base/system-error.js';

export const EXIT = {
  good: 0,
  /** Reading, writing or memory. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The model is missing, malformed or not supported. */
  model: 3,
  /** A line of the input is malformed. */
  input: 4,
  /** As shells report it. */
  interrupted: 130,
  /** The reader of the output has closed it, as shells report it. */
  closedPipe: 141,
};

/** Ends the command with a message and an exit code. */
export class Complaint extends Error {
  /**
   * @param {number} exit
   * @param {string} message
   */
  constructor(exit, message) {
    super(message);
    this.exit = exit;
  }
}

/** @param {string} message */
export const wrongUsage = (message) => new Complaint(EXIT.usage, message);

/** Characters by which a text could act on a terminal, or change the direction of what follows. */
const CONTROLS = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** @param {string} message */
function complain(message) {
  const safe = message.replace(
    CONTROLS,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  process.stderr.write(`wisp-engine: ${safe}\n`);
}

/**
 * Prints what an error says, if it says something, and returns the exit code for it.
 * @param {any} error
 */
export function complainOf(error) {
  if (error?.code === 'EPIPE') return EXIT.closedPipe;
  if (error instanceof WispError && error.code === 'cancelled') return EXIT.interrupted;
  complain(error instanceof Error ? error.message : String(error));
  if (error instanceof Complaint) return error.exit;
  if (!(error instanceof WispError)) return EXIT.failed;
  if (['not_found', 'format', 'unsupported'].includes(error.code)) return EXIT.model;
  return error.code === 'argument' ? EXIT.usage : EXIT.failed;
}

/**
 * Parses the arguments of a command.
 * @template {import('node:util').ParseArgsConfig['options']} T
 * @param {string} command
 * @param {string[]} args
 * @param {T} options
 */
export function parse(command, args, options) {
  try {
    return parseArgs({ args, options, allowPositionals: true, tokens: true });
  } catch (error) {
    const said = /** @type {Error} */ (error).message
      .replaceAll('\n', ' ')
      .replace(/\.? To .*/, '');
    throw wrongUsage(`${said} (see wisp-engine ${command} --help)`);
  }
}

/**
 * @param {string} option
 * @param {string} value
 * @param {readonly string[]} choices
 */
export function checkChoice(option, value, choices) {
  if (choices.includes(value)) return value;
  throw wrongUsage(`--${option} ${value}: choose one of ${choices.join(', ')}`);
}

/**
 * @param {string} option
 * @param {string | undefined} text
 * @param {number} least
 * @param {number} most
 * @returns {number | undefined}
 */
export function wholeNumber(option, text, least, most) {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw wrongUsage(`--${option} ${text}: expected a whole number from ${least} to ${most}`);
}

/** @param {string} option @param {string | undefined} text */
export function byteCount(option, text) {
  if (text === undefined) return undefined;
  const [, digits, unit] = /^(\d*\.?\d+)([KMG]?)$/.exec(text) ?? [];
  const bytes = Math.floor(Number(digits) * 1000 ** ' KMG'.indexOf(unit || ' '));
  if (bytes >= 1 && Number.isSafeInteger(bytes)) return bytes;
  throw wrongUsage(
    `--${option} ${text}: expected a number of bytes, such as 500000, 300K, 8M or 1.5G`,
  );
}

const STDOUT = 1;
const BUSY_MS = 10;

/**
 * Writes all bytes to standard output. The stream process.stdout would block the thread while the reader of a pipe is slow,
 * and no signal would be noticed.
 * @param {Uint8Array} bytes
 */
export async function writeOutput(bytes) {
  for (let done = 0; done < bytes.length;) {
    try {
      const { bytesWritten } = await promisify(write)(STDOUT, bytes, done);
      done += bytesWritten;
    } catch (error) {
      const { code } = /** @type {NodeJS.ErrnoException} */ (error);
      // Another program may have made the descriptor non-blocking.
      if (code === 'EAGAIN') await new Promise((resolve) => setTimeout(resolve, BUSY_MS));
      else if (code === 'EPIPE') throw error;
      else throw new Complaint(EXIT.failed, `cannot write the output: ${reasonOf(error)}`);
    }
  }
}

/** @param {string} text */
export const print = (text) => writeOutput(Buffer.from(text));

/** A line on a terminal's standard error that says how far a command is. */
export class Progress {
  #visible;
  #shown = -Infinity;

  /** @param {boolean} [quiet] */
  constructor(quiet = false) {
    this.#visible = !quiet && process.stderr.isTTY === true;
  }

  /** @param {() => string} line */
  show(line) {
    const now = performance.now();
    if (!this.#visible || now - this.#shown < 100) return;
    this.#shown = now;
    process.stderr.write(`\r\x1b[K${line()}`);
  }

  /** Clears the line. */
  end() {
    if (this.#shown > 0) process.stderr.write('\r\x1b[K');
    this.#shown = -Infinity;
  }
}
