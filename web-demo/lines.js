// SPDX-License-Identifier: Apache-2.0

/** The page keeps up to this many embeddings of lines that were removed, which may come back. */
const SPARE_ROWS = 20_000;

/**
 * A longer line is searched in passages: the model reads so many characters of a text, and a vector says less about
 * each part of a text the longer that is.
 */
const MOST_CHARACTERS = 600;

/**
 * Divides a line that is too long into passages, where sentences end, else words.
 * @param {string} line
 */
export function passagesOf(line) {
  const passages = [];
  let rest = line;
  while (rest.length > MOST_CHARACTERS) {
    const head = rest.slice(0, MOST_CHARACTERS);
    const sentences = /^[^]*[.!?…。！？]["')\]]*(?=\s|$)/.exec(head)?.[0].length ?? 0;
    const words = head.lastIndexOf(' ');
    let end = MOST_CHARACTERS;
    if (sentences > MOST_CHARACTERS / 3) end = sentences;
    else if (words > 0) end = words;
    else if (/[\ud800-\udbff]$/.test(head)) end--; // not between the halves of a character
    passages.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).trimStart();
  }
  return [...passages, rest].filter((passage) => passage !== '');
}

/** Keeps lines and their embeddings. A line needs one embedding, however often the text changes. */
export class Lines {
  /** The texts that can be found: lines, and passages of long ones. @type {string[]} */
  texts = [];
  /** How many different lines there are. */
  count = 0;
  /** @type {Map<string, Float32Array>} */
  #rows = new Map();

  /**
   * @param {string} text
   */
  replace(text) {
    const lines = text.split(/\r?\n/).map((line) => line.trim());
    const different = new Set(lines.filter((line) => line !== ''));
    this.count = different.size;
    this.texts = [...new Set([...different].flatMap(passagesOf))];
    if (this.#rows.size <= SPARE_ROWS + this.texts.length) return;
    const wanted = new Set(this.texts);
    for (const line of this.#rows.keys()) if (!wanted.has(line)) this.#rows.delete(line);
  }

  /** Returns the texts that have no embedding yet. */
  get missing() {
    return this.texts.filter((text) => !this.#rows.has(text));
  }

  /**
   * @param {string[]} texts
   * @param {import('../js/browser.js').Rows} rows
   */
  add(texts, rows) {
    texts.forEach((text, i) => this.#rows.set(text, rows.row(i)));
  }

  /**
   * Returns the lines nearest to a query. Rows have length 1, so their dot product is the cosine.
   * @param {Float32Array} query
   * @param {number} most
   */
  nearest(query, most) {
    return this.texts
      .flatMap((text) => {
        const row = this.#rows.get(text);
        return row ? [{ text, score: dot(query, row) }] : [];
      })
      .sort((a, b) => b.score - a.score)
      .slice(0, most);
  }
}

/**
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}
