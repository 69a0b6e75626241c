// SPDX-License-Identifier: Apache-2.0
// The text of a file that a user gives: plain, Markdown, HTML, tables or PDF.

/** Elements of HTML that are no text to read. */
const NO_TEXT = 'script, style, noscript, template, svg, nav, head';
/** And those after which a line ends. */
const BLOCKS =
  'p, div, li, tr, br, h1, h2, h3, h4, h5, h6, pre, blockquote, section, article, dt, dd, table';

/** @param {string} html */
function textOfHtml(html) {
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  for (const element of body.querySelectorAll(NO_TEXT)) element.remove();
  for (const element of body.querySelectorAll(BLOCKS)) element.append('\n');
  for (const element of body.querySelectorAll('br')) element.replaceWith('\n');
  return body.textContent ?? '';
}

/**
 * Divides a table by RFC 4180: a field in quotes may have separators, lines and doubled quotes.
 * @param {string} text
 * @param {string} separator
 */
export function rowsOf(text, separator) {
  const rows = /** @type {string[][]} */ ([[]]);
  const field = new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}\\n\\r][^${separator}\\n\\r]*)?)(${separator}|\\r\\n|\\n|\\r|$)`, 'gy'); // prettier-ignore
  for (const [whole, quoted, plain = '', end] of text.matchAll(field)) {
    rows[rows.length - 1].push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === '' || whole === '') break;
    if (end !== separator) rows.push([]);
  }
  return rows.filter((row) => row.some((cell) => cell !== ''));
}

/** A line for each row, which names its columns. @param {string} text @param {string} separator */
function textOfTable(text, separator) {
  const [head = [], ...rows] = rowsOf(text, separator);
  if (rows.length === 0) return head.join('. ');
  const line = (/** @type {string[]} */ row) =>
    row.map((cell, i) => (cell === '' ? '' : `${head[i] ?? ''}: ${cell}`)).filter((cell) => cell !== '').join('; '); // prettier-ignore
  return rows.map((row) => `${line(row)}.`).join('\n');
}

/** Leaves out the marks of headings and code. @param {string} text */
const textOfMarkdown = (text) => text.replace(/^#+\s+|^(?:```|~~~).*$|`|\*\*/gm, '');

/** @type {Record<string, (text: string) => string>} */
const READERS = {
  md: textOfMarkdown,
  markdown: textOfMarkdown,
  html: textOfHtml,
  htm: textOfHtml,
  xhtml: textOfHtml,
  csv: (text) => textOfTable(text, ','),
  tsv: (text) => textOfTable(text, '\t'),
};

/** @param {string} name */
export const isPdf = (name) => /\.pdf$/i.test(name);

/**
 * Returns the text of a file.
 * @param {string} name
 * @param {Blob} file that is no PDF
 */
export async function textOf(name, file) {
  const text = (await file.text()).replace(/^\ufeff/, '');
  if (text.includes('\0')) throw new Error(`${name} is not a text`);
  const [, ending = ''] = /\.(\w+)$/.exec(name.toLowerCase()) ?? [];
  return tidy((READERS[ending] ?? String)(text));
}

/** At most one empty line, and no space at the end of lines. @param {string} text */
export const tidy = (text) =>
  text
    .replace(/\r\n?/g, '\n')
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
