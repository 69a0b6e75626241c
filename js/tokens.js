// SPDX-License-Identifier: Apache-2.0

/** [CLS] and [SEP]. */
const SPECIAL_TOKENS = 2;

/** English words of more letters than this tend to be more than one token. */
const LETTERS_PER_TOKEN = 6;

/**
 * Estimates the number of tokens of a text, at most `most`, for dividing work. Only the workers have a
 * tokenizer, and asking them first would cost more than an uneven chunk.
 * @param {string} text
 * @param {number} most
 * @returns {number}
 */
export function estimateTokens(text, most) {
  let tokens = SPECIAL_TOKENS;
  let letters = 0; // in the word so far
  for (let i = 0; i < text.length && tokens < most; i++) {
    const code = text.charCodeAt(i);
    if (code <= 0x20) {
      letters = 0;
    } else if (isOneToken(code)) {
      tokens++;
      letters = 0;
    } else {
      if (letters % LETTERS_PER_TOKEN === 0) tokens++;
      letters++;
    }
  }
  return Math.min(tokens, most);
}

/**
 * Returns whether a character is ASCII punctuation or of a script written without spaces.
 * @param {number} code a UTF-16 unit
 */
function isOneToken(code) {
  if (code < 0x80) return !isLetterOrDigit(code);
  return code >= 0x2e80;
}

/** @param {number} code below 0x80 */
function isLetterOrDigit(code) {
  const lower = code | 0x20;
  return (lower >= 0x61 && lower <= 0x7a) || (code >= 0x30 && code <= 0x39);
}
