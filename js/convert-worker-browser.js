// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker that converts a model.
import { BlobOutput, HeldFiles } from './convert/convert-files.js';
import { serveConvert } from './convert/convert-worker.js';
import { listen } from './platform/scope-browser.js';

listen(
  serveConvert(({ files = new Map() }) => ({
    files: new HeldFiles(files),
    output: new BlobOutput(),
  })),
);
