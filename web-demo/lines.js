// SPDX-License-Identifier: Apache-2.0

/** The page keeps up to this many embeddings of lines that were removed, which may come back. */
const SPARE_ROWS = 20_000;

/** Keeps lines and their embeddings. A line needs one embedding, however often the text changes. */
export class Lines {
  /** @type {string[]} */
  texts = [];
  /** @type {Map<string, Float32Array>} */
  #rows = new Map();

  /**
   * @param {string} text
   */
  replace(text) {
    const lines = text.split(/\r?\n/).map((line) => line.trim());
    this.texts = [...new Set(lines.filter((line) => line !== ''))];
    if (this.#rows.size <= SPARE_ROWS + this.texts.length) return;
    const wanted = new Set(this.texts);
    for (const line of this.#rows.keys()) if (!wanted.has(line)) this.#rows.delete(line);
  }

  /** Returns the lines that have no embedding yet. */
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
