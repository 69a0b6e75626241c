// SPDX-License-Identifier: Apache-2.0
// Reads the text of PDF files by pdf.js, which comes from where the page says.

/** Both scripts of pdf.js, once they are here. @type {Promise<any> | undefined} */
let library;

/** @param {string} place a folder with pdf.js */
async function load(place) {
  const [pdf, worker] = await Promise.all(
    ['pdf.min.mjs', 'pdf.worker.min.mjs'].map((name) => import(`${place}${name}`)),
  );
  // This is a worker already: pdf.js runs its own part here.
  Object.assign(globalThis, { pdfjsWorker: worker });
  return pdf;
}

/** @param {any} pdf @param {ArrayBuffer} data */
async function read(pdf, data) {
  const task = pdf.getDocument({
    data,
    isEvalSupported: false,
    useSystemFonts: false,
    verbosity: 0,
    disableFontFace: true,
    ownerDocument: {},
    useWasm: false,
  });
  const file = await task.promise;
  const pages = [];
  for (let i = 1; i <= file.numPages; i++) {
    const { items } = await (await file.getPage(i)).getTextContent();
    pages.push(
      items.map((/** @type {any} */ { str = '', hasEOL }) => str + (hasEOL ? '\n' : '')).join(''),
    );
  }
  await task.destroy();
  return pages.join('\n\n');
}

addEventListener('message', async ({ data: { place, bytes } }) => {
  if (!place) return; // a message to pdf.js, which listens here, too
  try {
    const text = await read(await (library ??= load(place)), bytes);
    postMessage({ read: { text } });
  } catch (error) {
    postMessage({ read: { error: String(error) } });
  }
});
