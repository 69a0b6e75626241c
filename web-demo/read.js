// SPDX-License-Identifier: Apache-2.0
// Runs the page that shows wisp's documents.
import { render } from './markdown.js';
import { at, keepForLater, showFailure } from './page.js';

/** The folder of the package. */
const ROOT = new URL('../', import.meta.url);

/** The document of the address, and its place. */
const name = new URL(location.href).searchParams.get('page') ?? 'README.md';
const place = new URL(name, ROOT);

/**
 * Documents are shown by this page; all else is left as it is.
 * @param {string} address as the document has it
 * @param {boolean} isImage
 */
function resolve(address, isImage) {
  if (address.startsWith('#')) return address;
  const url = new URL(address, place);
  const isOwn = url.href.startsWith(ROOT.href);
  if (isImage || !isOwn || !url.pathname.endsWith('.md')) return url.href;
  return `read.html?page=${url.pathname.slice(ROOT.pathname.length)}${url.hash}`;
}

try {
  if (!place.href.startsWith(ROOT.href) || !place.pathname.endsWith('.md'))
    throw new Error(`${name} is not a document of wisp`);
  const response = await fetch(place);
  if (!response.ok) throw new Error(`${place.href}: status ${response.status}`);
  const text = await response.text();
  at('document').replaceChildren(...render(text, resolve));
  const title = document.querySelector('#document h1, #document h2');
  if (title?.textContent) document.title = `${title.textContent} (wisp)`;
  document.querySelector(`#contents [href="read.html?page=${name}"]`)?.setAttribute('aria-current', 'page'); // prettier-ignore
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
} catch (error) {
  showFailure('The document could not be shown', error);
}
document.documentElement.dataset.read = name;
await keepForLater();
