// SPDX-License-Identifier: Apache-2.0
// Steps of tests in web-demo/weights.html, in any browser.

const textOf = (/** @type {Element | null} */ element) => element?.textContent ?? '';

/** @param {string} rows */
const cellsOf = (rows) =>
  [...document.querySelectorAll(rows)].map((row) => [...row.children].map(textOf));

const at = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

/** Gives files to the page, as a user who chooses them. @param {string[]} urls */
export async function giveWeights(urls) {
  const given = new DataTransfer();
  for (const url of urls) {
    const bytes = await (await fetch(url)).blob();
    given.items.add(new File([bytes], url.slice(url.lastIndexOf('/') + 1)));
  }
  at('files').files = given.files;
  at('files').dispatchEvent(new Event('change'));
}

/**
 * Gives files to the page, and returns what it shows when all types are measured, or one file has failed.
 * @param {string[]} urls
 * @param {string} [type] chosen when all are measured
 */
export async function readWeights(urls, type) {
  await giveWeights(urls);
  while (!('read' in document.documentElement.dataset) && at('failure').hidden) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  if (type) at('costs').querySelector(`[value=${type}]`)?.click();
  return shown();
}

function shown() {
  const failure = document.getElementById('failure');
  return {
    failure: failure?.hidden ? '' : textOf(document.getElementById('failure-text')),
    status: textOf(document.getElementById('status')),
    costs: cellsOf('#costs tbody tr'),
    tensors: cellsOf('#tensors tbody tr'),
    pictures: document.querySelectorAll('#tensors path').length,
    points: [...document.querySelectorAll('#chart g')].map(textOf),
    chosen: textOf(document.querySelector('#chart .chosen')),
    facts: [...document.querySelectorAll('#facts dd')].map(textOf),
  };
}

/**
 * Asks for the model that comes with wisp, and gives another file before it has come.
 * @param {string} url
 */
export async function readWhileDefaultComes(url) {
  const { fetch } = globalThis;
  let letCome = () => {};
  const mayCome = new Promise((resolve) => (letCome = () => resolve(undefined)));
  let came = false;
  globalThis.fetch = async (from, init) => {
    const response = await fetch(from, init);
    if (String(from).endsWith('/wisp-default.gguf')) {
      await mayCome;
      const { blob } = response;
      response.blob = async () => {
        const bytes = await blob.call(response);
        came = true;
        return bytes;
      };
    }
    return response;
  };
  try {
    document.getElementById('default')?.click();
    await readWeights([url]);
    letCome();
    while (!came) await new Promise((resolve) => requestAnimationFrame(resolve));
    return { ...shown(), came };
  } finally {
    globalThis.fetch = fetch;
  }
}
