// SPDX-License-Identifier: Apache-2.0
// Steps of tests in web-demo/weights.html, in any browser.

const textOf = (/** @type {Element | null} */ element) => element?.textContent ?? '';

/** @param {string} rows */
const cellsOf = (rows) =>
  [...document.querySelectorAll(rows)].map((row) => [...row.children].map(textOf));

/**
 * Gives files to the page, and returns what it shows when all types are measured, or one file has failed.
 * @param {string[]} urls
 * @param {string} [type] chosen when all are measured
 */
export async function readWeights(urls, type) {
  const at = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
  const given = new DataTransfer();
  for (const url of urls) {
    const bytes = await (await fetch(url)).blob();
    given.items.add(new File([bytes], url.slice(url.lastIndexOf('/') + 1)));
  }
  at('files').files = given.files;
  at('files').dispatchEvent(new Event('change'));
  while (!('read' in document.documentElement.dataset) && at('failure').hidden) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  if (type) at('costs').querySelector(`[value=${type}]`)?.click();
  return {
    failure: at('failure').hidden ? '' : textOf(at('failure-text')),
    status: textOf(at('status')),
    costs: cellsOf('#costs tbody tr'),
    tensors: cellsOf('#tensors tbody tr'),
    pictures: document.querySelectorAll('#tensors path').length,
    points: [...document.querySelectorAll('#chart g')].map(textOf),
    chosen: textOf(document.querySelector('#chart .chosen')),
    facts: [...document.querySelectorAll('#facts dd')].map(textOf),
  };
}
