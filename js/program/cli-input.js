// SPDX-License-Identifier: Apache-2.0
// The texts of `wisp-engine embed`: lines or JSON of files, of standard input and of the command line.
import { createReadStream, fstatSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { reasonOf } from '../base/system-error.js';
import { Complaint, EXIT, wrongUsage } from './cli-console.js';

/** @typedef {{ path: string } | { text: string }} Item */

/**
 * A text to embed. `kept` are the other fields of its object, as they are in the input.
 * @typedef {{ text: string, kept: string[] }} Entry
 */

/** Bytes, as many as the program wisp allows. */
const MOST_LINE = 64 * 2 ** 20;

/** Objects and arrays within each other, as many as the program wisp allows. */
const MOST_DEPTH = 64;

/** U+FEFF. */
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Gives the texts of all items, in order.
 * @param {readonly Item[]} items
 * @param {boolean} ndjson
 * @returns {AsyncGenerator<Entry, void, void>}
 */
export async function* entriesOf(items, ndjson) {
  for (const item of items) {
    if ('text' in item) {
      yield ndjson ? entryOf(item.text, '--text', 1) : { text: item.text, kept: [] };
      continue;
    }
    let number = 0;
    for await (const line of linesOf(item.path, ndjson)) {
      number++;
      const text = line.endsWith('\r') ? line.slice(0, -1) : line;
      if (!ndjson) yield { text, kept: [] };
      else if (/[^ \t\r]/.test(text)) yield entryOf(text, item.path, number);
    }
  }
}

/** @param {string} path */
async function open(path) {
  if (path === '') throw wrongUsage('input: the path is empty');
  const isStdin = path === '-';
  try {
    const found = isStdin ? fstatSync(0) : await stat(path);
    const output = fstatSync(1);
    if (output.isFile() && found.dev === output.dev && found.ino === output.ino) {
      throw new Complaint(EXIT.failed, `${path}: the input is the output, too`);
    }
  } catch (error) {
    if (error instanceof Complaint) throw error;
    throw new Complaint(EXIT.failed, `${path}: cannot open: ${reasonOf(error)}`);
  }
  return isStdin ? process.stdin : createReadStream(path);
}

/**
 * Gives the lines of a file. A byte order mark at its start is not a text.
 * @param {string} path
 * @param {boolean} exact if bytes that are not UTF-8 end the command, and not become U+FFFD
 */
async function* linesOf(path, exact) {
  const decoder = new TextDecoder('utf-8', { fatal: exact, ignoreBOM: true });
  /** The beginning of a line whose end is not read yet. @type {Buffer[]} */
  let parts = [];
  let held = 0;
  let number = 0;
  /** @param {Buffer} bytes */
  const lineOf = (bytes) => {
    const line = parts.length > 0 ? Buffer.concat([...parts, bytes]) : bytes;
    parts = [];
    held = 0;
    number++;
    const hasMark = number === 1 && line.subarray(0, MARK.length).equals(MARK);
    try {
      return decoder.decode(hasMark ? line.subarray(MARK.length) : line);
    } catch {
      throw new Complaint(EXIT.input, `${path}: line ${number}: not valid UTF-8`);
    }
  };
  const input = await open(path);
  try {
    for await (const bytes of input) {
      let from = 0;
      for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, from)) {
        yield lineOf(bytes.subarray(from, end));
        from = end + 1;
      }
      held += bytes.length - from;
      if (held > MOST_LINE) {
        throw new Complaint(
          EXIT.input,
          `${path}: line ${number + 1} is longer than ${MOST_LINE} bytes`,
        );
      }
      if (from < bytes.length) parts.push(bytes.subarray(from));
    }
  } catch (error) {
    if (error instanceof Complaint) throw error;
    throw new Complaint(EXIT.failed, `${path}: cannot read: ${reasonOf(error)}`);
  }
  const last = parts.length > 0 ? lineOf(Buffer.alloc(0)) : '';
  if (last !== '') yield last;
}

/**
 * @param {string} line of JSON
 * @param {string} name of the file
 * @param {number} number of the line
 * @returns {Entry}
 */
function entryOf(line, name, number) {
  const wrong = (/** @type {string} */ what) =>
    new Complaint(EXIT.input, `${name}: line ${number}: ${what}`);
  let value;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw wrong(`not JSON: ${/** @type {Error} */ (error).message}`);
  }
  const text = typeof value === 'string' ? value : value?.text;
  if (typeof text !== 'string') {
    throw wrong('neither a JSON string nor an object with a string "text"');
  }
  if (/\p{Surrogate}/u.test(text)) throw wrong('the text has half of a surrogate pair');
  if (text === value) return { text, kept: [] };
  const members = membersOf(line);
  if (members.some(({ depth }) => depth > MOST_DEPTH)) throw wrong('nested too deeply');
  const keys = new Set();
  for (const { key, repeated } of members) {
    const twice = keys.has(key) ? key : repeated;
    if (twice !== undefined) throw wrong(`${twice}: the key appears twice in one object`);
    keys.add(key);
  }
  const kept = members
    .filter(({ key }) => key !== 'text' && key !== 'embedding')
    .map(({ raw }) => raw);
  return { text, kept };
}

/**
 * Returns the members of an object as they are in its JSON, which is valid, how many objects and arrays are within
 * each other there, this one included, and a key that stands twice in an object within. Parsing and printing them
 * would change numbers such as 1.50 or 12345678901234567890.
 * @param {string} json
 */
function membersOf(json) {
  const members = [];
  for (let at = json.indexOf('{') + 1; ;) {
    const start = json.indexOf('"', at);
    if (start < 0) return members;
    const keyEnd = endOfString(json, start);
    const { end, depth, repeated } = valueAt(json, keyEnd);
    const raw = json.slice(start, end).trimEnd();
    members.push({ key: JSON.parse(json.slice(start, keyEnd)), raw, depth: depth + 1, repeated });
    if (json[end] !== ',') return members;
    at = end + 1;
  }
}

/** @param {string} json @param {number} start of a string's first quote */
function endOfString(json, start) {
  let at = start + 1;
  while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at + 1;
}

/**
 * Returns where the comma or brace after a member's value stands, how deep the value is nested, and a key that stands
 * twice in one of its objects.
 * @param {string} json @param {number} start
 */
function valueAt(json, start) {
  /** Keys of the objects that are open; undefined for arrays. @type {(Set<string> | undefined)[]} */
  const open = [];
  /** @type {string | undefined} */
  let repeated;
  let depth = 0;
  for (let at = start; ;) {
    const c = json[at];
    if (open.length === 0 && (c === ',' || c === '}')) return { end: at, depth, repeated };
    if (c === '{' || c === '[')
      depth = Math.max(depth, open.push(c === '{' ? new Set() : undefined));
    else if (c === '}' || c === ']') open.pop();
    const end = c === '"' ? endOfString(json, at) : at + 1;
    const keys = open[open.length - 1];
    if (c === '"' && keys && isKey(json, end)) {
      const key = JSON.parse(json.slice(at, end));
      if (keys.has(key)) repeated ??= key;
      keys.add(key);
    }
    at = end;
  }
}

/** Returns whether a string of an object is a key, by the character after it. @param {string} json @param {number} end */
function isKey(json, end) {
  while (/\s/.test(json[end])) end++;
  return json[end] === ':';
}
