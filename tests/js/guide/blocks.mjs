// SPDX-License-Identifier: Apache-2.0
// The code of a page of documentation, and what the page says that it does.

/**
 * A block of code. The paragraph before it says what it is:
 * - one that ends in "`NAME`:" is followed by a file of this name;
 * - a block whose first line begins with "$ " has commands, each followed by what it prints. A line "..." stands for any
 *   lines, "..." at the end of one for its rest, and a command that ends in a backslash goes on;
 * - after one that ends in "shows:" comes the text of a web page, whose address the paragraph has. "Type `TEXT`" in it says
 *   what is typed into the page, and "Stop the server" what is done first.
 * @typedef {object} Block
 * @property {string} section the heading above
 * @property {string} before the paragraph before, on one line
 * @property {string} code
 */

/**
 * The blocks of a page, which are indented by four spaces.
 * @param {string} text
 * @returns {Block[]}
 */
export function blocksOf(text) {
  const blocks = [];
  let section = '';
  let before = '';
  for (const part of text.split(/\n(?:[ \t]*\n)+(?! {4})|\n(?=#)|(?<! {4}.*)\n\n(?= {4})/)) {
    const heading = /^#+ (.*)/.exec(part);
    if (heading) {
      section = heading[1];
    } else if (/^ {4}/.test(part)) {
      blocks.push({ section, before, code: part.replaceAll(/^ {4}/gm, '').trimEnd() });
    }
    before = part.replaceAll(/\s+/g, ' ').trim();
  }
  return blocks;
}

/** The name of the file that a block is, or undefined. @param {Block} block */
export const fileOf = ({ before }) => /`([\w./-]*\.\w+)`:$/.exec(before)?.[1];

/**
 * The commands of a block, with what they print.
 * @param {string} code
 * @returns {{ command: string, output: string }[]}
 */
export function commandsIn(code) {
  const found = [];
  for (const part of code.split(/^\$ /m).slice(1)) {
    const [, command, output] = /** @type {RegExpExecArray} */ (
      /^((?:.*\\\n)*.*)\n?([^]*)$/.exec(part)
    );
    found.push({ command, output });
  }
  return found;
}

/** How far numbers with a fraction may differ: processors round differently (docs/javascript.md). */
const TOLERANCE = 0.02;
const NUMBER = /-?\d+\.\d+/g;

/**
 * Whether a program printed what the page shows, but for the last digits of numbers.
 * @param {string} shown
 * @param {string} printed
 */
export function agrees(shown, printed) {
  const words = (/** @type {string} */ text) =>
    text
      .trim()
      .split(/\s*\n\s*/)
      .join('\n');
  const pattern = words(shown)
    .replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll(/-?\d+\\\.\d+/g, String.raw`(-?\d+\.\d+)`)
    .replaceAll(/^(\\\.){3}$/gm, '[^]*')
    .replaceAll(/(\\\.){3}$/gm, '.*');
  const match = new RegExp(`^${pattern}$`).exec(words(printed));
  const numbers = shown.match(NUMBER) ?? [];
  return (
    match !== null &&
    numbers.every((number, i) => Math.abs(Number(number) - Number(match[i + 1])) <= TOLERANCE)
  );
}
