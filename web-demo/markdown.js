// SPDX-License-Identifier: Apache-2.0
// Renders the Markdown of wisp's documents as elements. Nothing in a document becomes markup but what is made here.

const HEADING = /^(#{1,6})\s+(.*)$/;
const FENCE = /^(?:```|~~~)/;
const ITEM = /^(\s*)([-*]|\d+\.)\s+(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/;
const CODE_INDENT = /^ {4}/;

/** Code, images, links, bold, italic and bare addresses; what is between is text. */
const INLINE =
  /`([^`]+)`|!\[([^\]]*)\]\(([^)\s]+)\)|\[((?:[^[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)|\*\*([^*]+)\*\*|(?<![\w*])[*_]([^*_\s](?:[^*_]*[^*_\s])?)[*_](?!\w)|(https?:\/\/[^\s<>)]*[^\s<>).,;:])/g;

/** @typedef {(address: string, isImage: boolean) => string} Resolve gives links and pictures their addresses here */

/**
 * @param {string} name
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The name of a heading in addresses, as code hosts make it. @param {string} text */
export const slugOf = (text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');

/** @param {string} text @param {Resolve} resolve @returns {(Node | string)[]} */
function inline(text, resolve) {
  const nodes = /** @type {(Node | string)[]} */ ([]);
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, code, alt, source, label, address, strong, soft, bare] = found;
    nodes.push(text.slice(end, found.index));
    end = found.index + whole.length;
    if (code !== undefined) nodes.push(element('code', {}, code));
    else if (source) nodes.push(element('img', { src: resolve(source, true), alt }));
    else if (address)
      nodes.push(element('a', { href: resolve(address, false) }, ...inline(label, resolve))); // prettier-ignore
    else if (strong) nodes.push(element('strong', {}, ...inline(strong, resolve)));
    else if (soft) nodes.push(element('em', {}, ...inline(soft, resolve)));
    else nodes.push(element('a', { href: bare }, bare));
  }
  return [...nodes, text.slice(end)].filter((node) => node !== '');
}

/** @param {string} row of a table @returns {string[]} */
const cellsOf = (row) =>
  row
    .trim()
    .replace(/^\||\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));

/** Tables have numbers, by which one tells them apart. */
let tables = 0;

/** @param {string[]} rows @param {Resolve} resolve */
function tableOf(rows, resolve) {
  const [head, , ...body] = rows;
  const line = (/** @type {string} */ row, /** @type {string} */ name) =>
    element('tr', {}, ...cellsOf(row).map((cell) => element(name, name === 'th' ? { scope: 'col' } : {}, ...inline(cell, resolve)))); // prettier-ignore
  const isNamed = cellsOf(head).some((cell) => cell !== '');
  const table = element('table', {}, element('tbody', {}, ...body.map((row) => line(row, 'td'))));
  if (isNamed) table.prepend(element('thead', {}, line(head, 'th')));
  return element('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': `Table ${++tables}` }, table); // prettier-ignore
}

/** @param {string} text */
const codeOf = (text) =>
  element('pre', { tabindex: '0' }, element('code', {}, text.replace(/\n+$/, '')));

/**
 * A list, whose items may have further lines, and lists in them.
 * @param {string[]} lines
 * @param {Resolve} resolve
 * @returns {HTMLElement}
 */
function listOf(lines, resolve) {
  const [, , mark] = ITEM.exec(lines[0]) ?? [];
  const list = element(/\d/.test(mark) ? 'ol' : 'ul', {});
  const [, indent] = ITEM.exec(lines[0]) ?? ['', ''];
  /** @type {string[][]} */
  const items = [];
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent.length) items.push([found[3]]);
    else items[items.length - 1].push(line);
  }
  for (const item of items) {
    const inner = item.findIndex((line, i) => i > 0 && ITEM.test(line));
    const own = inner < 0 ? item : item.slice(0, inner);
    const made = element('li', {}, ...inline(own.map((line) => line.trim()).join(' '), resolve));
    if (inner > 0) made.append(listOf(item.slice(inner), resolve));
    list.append(made);
  }
  return list;
}

/** Pictures as Markdown writes them. @param {string} tag */
function pictureOf(tag) {
  const [source, alt] = ['src', 'alt'].map((name) => new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? ''); // prettier-ignore
  return `![${alt.replace(/\s+/g, ' ')}](${source})`;
}

/**
 * @param {string} text Markdown
 * @param {Resolve} resolve
 * @returns {Node[]}
 */
export function render(text, resolve) {
  const lines = text
    .replace(/\r\n?/g, '\n')
    .replace(/<!--[^]*?-->/g, '')
    .replace(/<img\b[^>]*>/g, pictureOf)
    .split('\n');
  /** @type {Node[]} */
  const nodes = [];
  let at = 0;
  /** Takes lines while they fit. @param {(line: string, i: number) => boolean} fits */
  const take = (fits) => {
    const from = at;
    while (at < lines.length && fits(lines[at], at - from)) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line);
    if (line.trim() === '') at++;
    else if (heading) {
      at++;
      const made = element(`h${heading[1].length}`, {}, ...inline(heading[2], resolve));
      made.id = slugOf(made.textContent ?? '');
      nodes.push(made);
    } else if (FENCE.test(line)) {
      at++;
      nodes.push(codeOf(take((next) => !FENCE.test(next)).join('\n')));
      at++;
    } else if (CODE_INDENT.test(line)) {
      const code = take((next, i) => CODE_INDENT.test(next) || (next.trim() === '' && CODE_INDENT.test(lines[at + 1] ?? '') && i > 0)); // prettier-ignore
      nodes.push(codeOf(code.map((each) => each.slice(4)).join('\n')));
    } else if (TABLE_RULE.test(lines[at + 1] ?? '') && line.includes('|')) {
      nodes.push(tableOf(take((next) => next.includes('|')), resolve)); // prettier-ignore
    } else if (ITEM.test(line)) {
      nodes.push(listOf(take((next, i) => i === 0 || ITEM.test(next) || (/^\s+\S/.test(next) && next.trim() !== '')), resolve)); // prettier-ignore
    } else if (line.startsWith('>')) {
      const quoted = take((next) => next.startsWith('>')).map((each) => each.replace(/^> ?/, ''));
      nodes.push(element('blockquote', {}, ...render(quoted.join('\n'), resolve)));
    } else if (/^\s*<\/?[a-z][^>]*>\s*$/i.test(line)) {
      at++; // a tag alone on its line: what it wraps is rendered
    } else {
      const own = take(
        (next, i) =>
          i === 0 ||
          (next.trim() !== '' && !HEADING.test(next) && !FENCE.test(next) && !ITEM.test(next)),
      );
      nodes.push(element('p', {}, ...inline(own.map((each) => each.trim()).join(' '), resolve)));
    }
  }
  return nodes;
}
