// SPDX-License-Identifier: Apache-2.0
// The script of a Web Worker that converts a model.
import { BlobOutput, HeldFiles } from './convert-files.js';
import { serveConvert } from './convert-worker.js';
import { listen } from './scope-browser.js';

listen(
  serveConvert(({ files = new Map() }) => ({
    files: new HeldFiles(files),
    output: new BlobOutput(),
  })),
);
