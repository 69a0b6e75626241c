// SPDX-License-Identifier: Apache-2.0
// A conversation as the module takes it, and the checks of its parts.
import { takeMemory } from '../base/errors.js';
import { checkString, wrong } from '../base/options.js';

/**
 * Returns a value as JSON. Half of a surrogate pair, which JSON has as an escape, becomes U+FFFD.
 * @param {unknown} value
 * @param {string} field
 * @returns {string}
 */
export function jsonOf(value, field) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw wrong(field, `not JSON: ${/** @type {Error} */ (cause).message}`);
  }
  if (text === undefined) throw wrong(field, `of type ${typeof value}, which is not JSON`);
  if (!text.includes('\\ud')) return text; // most texts, which may be long
  return text.replace(/\\\\|\\ud[89a-f]../g, (escape) => (escape === '\\\\' ? escape : '\ufffd'));
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

/** Messages that are written between two places to pause, and about the bytes that are copied. */
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
  const parts = [encoder.encode(`{${others.join()}}\n[`)];
  for (let i = 0; i < list.length; i += STEP_MESSAGES) {
    if (i > 0) yield;
    const some = list.slice(i, i + STEP_MESSAGES);
    some.forEach((message, k) => checkString(message?.role, `messages[${i + k}].role`));
    const json = jsonOf(some, 'messages');
    parts.push(
      encoder.encode(i + STEP_MESSAGES < list.length ? `${json.slice(1, -1)},` : json.slice(1)),
    );
  }
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
