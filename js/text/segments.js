// SPDX-License-Identifier: Apache-2.0
// The sentences, words and characters of a text: by the Unicode rules of Intl.Segmenter, else by plainer
// ones. Each function divides a text without loss, and gives its parts when they are asked for.
import { wrong } from '../base/options.js';

/**
 * @callback Divide
 * @param {string} text
 * @param {string} [locale]
 * @returns {Iterable<string>}
 */

/** @type {Divide} sentences, each with the white space after it */
export const sentences = divider('sentence', (text) =>
  text.matchAll(/.+?(?:[.!?]+["'”’»)\]]*(?=\s)|[。！？]+|\n|$)\s*/gsu),
);

/** @type {Divide} */
export const words = divider('word', (text) => text.matchAll(/\S+\s*|\s+/gu));

/** @type {Divide} what readers take for single characters */
export const graphemes = divider('grapheme', (text) => text.matchAll(/./gsu));

/** How many units of a text are divided at a time: V8 takes as long for each part as the text is. */
const WINDOW = 8192;

/**
 * Where a part ends may depend on what follows, but not on more than the next part. So all parts of a window hold but the
 * last two, with which the next window begins.
 * @param {Intl.Segmenter} segmenter
 * @param {string} text
 */
function* inWindows(segmenter, text) {
  let [start, size] = [0, WINDOW];
  while (start < text.length) {
    const end = Math.min(start + size, text.length);
    const found = Array.from(segmenter.segment(text.slice(start, end)), ({ segment }) => segment);
    const firm = end === text.length ? found : found.slice(0, -2);
    for (const part of firm) {
      yield part;
      start += part.length;
    }
    size = firm.length > 0 ? WINDOW : 2 * size; // a part longer than a window
  }
}

/**
 * @param {'sentence' | 'word' | 'grapheme'} granularity
 * @param {string | undefined} locale
 */
function segmenterOf(granularity, locale) {
  try {
    return globalThis.Intl?.Segmenter && new Intl.Segmenter(locale, { granularity });
  } catch (cause) {
    throw cause instanceof RangeError
      ? wrong('locale', `'${locale}' is not a language tag`)
      : cause;
  }
}

/**
 * @param {'sentence' | 'word' | 'grapheme'} granularity
 * @param {(text: string) => Iterable<RegExpMatchArray>} otherwise without Intl.Segmenter
 * @returns {Divide}
 */
function divider(granularity, otherwise) {
  return function* (text, locale) {
    const segmenter = segmenterOf(granularity, locale);
    if (segmenter) yield* inWindows(segmenter, text);
    else for (const [part] of otherwise(text)) yield part;
  };
}
