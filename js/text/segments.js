// SPDX-License-Identifier: Apache-2.0
// The sentences, words and characters of a text: by the Unicode rules of Intl.Segmenter, else by plainer
// ones. Each function divides a text without loss.
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

/**
 * @param {'sentence' | 'word' | 'grapheme'} granularity
 * @param {(text: string) => Iterable<RegExpMatchArray>} otherwise without Intl.Segmenter
 * @returns {Divide}
 */
function divider(granularity, otherwise) {
  return (text, locale) => {
    const { Segmenter } = globalThis.Intl ?? {};
    if (!Segmenter) return Array.from(otherwise(text), ([part]) => part);
    try {
      const parts = new Segmenter(locale, { granularity }).segment(text);
      return Array.from(parts, ({ segment }) => segment);
    } catch (cause) {
      throw cause instanceof RangeError
        ? wrong('locale', `'${locale}' is not a language tag`)
        : cause;
    }
  };
}
