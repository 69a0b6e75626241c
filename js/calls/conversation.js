// SPDX-License-Identifier: Apache-2.0
// A conversation as the module takes it, and the checks of its parts.
import { takeMemory } from '../base/errors.js';
import { checkString, wrong } from '../base/options.js';

/**
 * Returns a value as JSON. Half of a surrogate pair, which JSON has as an escape, becomes U+FFFD.
 * @param {unknown} value
 * @param {string} field
 * @param {(key: string, value: any) => any} [replacer]
 * @returns {string}
 */
export function jsonOf(value, field, replacer = undefined) {
  let text;
  try {
    text = JSON.stringify(value, replacer);
  } catch (cause) {
    throw wrong(field, `not JSON: ${/** @type {Error} */ (cause).message}`);
  }
  if (text === undefined) throw wrong(field, `of type ${typeof value}, which is not JSON`);
  return wellFormed(text);
}

/** @param {string} json with escapes only where they have to be */
const wellFormed = (json) =>
  json.includes('\\ud') // in most texts, which may be long, it is not
    ? json.replace(/\\\\|\\ud[89a-f]../g, (escape) => (escape === '\\\\' ? escape : '\ufffd'))
    : json;

/** Characters that are written between two places to pause. */
const STEP_CHARACTERS = 1 << 16;

/** Whether a unit of UTF-16 is the first half of a pair. @param {number} unit */
const isHigh = (unit) => unit >= 0xd800 && unit < 0xdc00;

/**
 * Whether a value has a text of more than STEP_CHARACTERS.
 * @param {unknown} value
 * @param {number} [depth] of parts that are looked at, as those of contents are
 * @returns {boolean}
 */
const isLong = (value, depth = 3) =>
  typeof value === 'string'
    ? value.length > STEP_CHARACTERS
    : depth > 0 && Object.values(value ?? {}).some((part) => isLong(part, depth - 1));

/**
 * Returns a value as jsonOf does, but in parts of some STEP_CHARACTERS at most, if only texts in it are longer.
 * @param {unknown} value
 * @param {string} field
 * @returns {Generator<string, void>}
 */
function* partsOf(value, field) {
  /** @type {string[]} */
  const long = [];
  let mark = '';
  const json = jsonOf(value, field, (_, text) => {
    if (typeof text !== 'string' || text.length <= STEP_CHARACTERS) return text;
    long.push(text);
    return (mark ||= `long text ${Math.random()}`);
  });
  const short = mark ? json.split(`"${mark}"`) : [json];
  if (short.length !== long.length + 1) return yield* partsOf(value, field); // it has this text, too
  yield short[0];
  for (const [i, text] of long.entries()) {
    yield '"';
    for (let at = 0, end; at < text.length; at = end) {
      end = at + STEP_CHARACTERS;
      if (isHigh(text.charCodeAt(end - 1))) end--; // a pair stays together
      yield wellFormed(JSON.stringify(text.slice(at, end)).slice(1, -1));
    }
    yield `"${short[i + 1]}`;
  }
}

/**
 * Returns a date and time of the local clock, as templates are told it.
 * @param {unknown} date
 */
function dateOf(date) {
  if (typeof date === 'string') return date;
  if (!(date instanceof Date) || Number.isNaN(date.getTime())) {
    throw wrong('date', 'neither a Date nor a text');
  }
  const local = new Date(date.getTime() - 60_000 * date.getTimezoneOffset());
  return local.toISOString().slice(0, 19);
}

/** Messages that are written, and about the bytes that are copied, between two places to pause. */
const STEP_MESSAGES = 16;
const STEP_BYTES = 1 << 20;

const encoder = new TextEncoder();

/**
 * Returns the bytes of a conversation as JSON for C: a line with what is not its messages, which is read in the first step, and these.
 * @param {unknown} messages
 * @param {import('../../types/generate.js').ConversationOptions} options
 * @returns {import('../platform/slices.js').Steps<Uint8Array>}
 */
export function* conversationOf(messages, options) {
  const {
    format,
    template,
    tools,
    documents,
    thinking,
    variables = {},
    date = new Date(),
  } = options;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw wrong('messages', 'not an array of messages { role, content }');
  }
  if (format !== undefined) checkString(format, 'format');
  if (format?.includes('\0')) throw wrong('format', 'a text with a NUL');
  if (template !== undefined) checkString(template, 'template');
  if (thinking !== undefined && typeof thinking !== 'boolean') {
    throw wrong('thinking', 'not true or false');
  }
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) {
    throw wrong('variables', 'not an object');
  }
  /** @type {Record<string, unknown>} */
  const given = { ...variables };
  if (tools !== undefined) given.tools = tools;
  if (documents !== undefined) given.documents = documents;
  if (thinking) given.enable_thinking = true;
  const others = [
    `"variables":${jsonOf(given, 'variables')}`,
    `"date":${jsonOf(dateOf(date), 'date')}`,
    ...(format === undefined ? [] : [`"format":${jsonOf(format, 'format')}`]),
    ...(template === undefined ? [] : [`"template":${jsonOf(template, 'template')}`]),
  ];
  // The caller may add to its array meanwhile. map would skip holes.
  const list = Array.from(messages);
  const parts = [];
  let text = `{${others.join()}}\n[`;
  for (const [i, message] of list.entries()) {
    if (i % STEP_MESSAGES === 0 && i > 0) yield;
    checkString(message?.role, `messages[${i}].role`);
    for (const part of isLong(message)
      ? partsOf(message, 'messages')
      : [jsonOf(message, 'messages')]) {
      text += part;
      if (text.length < STEP_CHARACTERS) continue;
      parts.push(encoder.encode(text));
      text = '';
      yield;
    }
    text += i + 1 < list.length ? ',' : ']';
  }
  parts.push(encoder.encode(text));
  const size = parts.reduce((sum, { length }) => sum + length, 0);
  const whole = takeMemory(`messages of ${size} bytes`, () => new Uint8Array(size));
  let at = 0;
  let here = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
    here += part.length;
    if (here < STEP_BYTES) continue;
    here = 0;
    yield;
  }
  return whole;
}
