// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node that converts a model.
import { BytesOutput, HeldFiles } from './convert/convert-files.js';
import { DiskFiles, DiskOutput } from './convert/convert-files-node.js';
import { serveConvert } from './convert/convert-worker.js';
import { listen } from './platform/scope-node.js';

listen(
  serveConvert(({ files, descriptor }) => ({
    files: files ? new HeldFiles(files) : new DiskFiles(),
    output: descriptor === undefined ? new BytesOutput() : new DiskOutput(descriptor),
  })),
);
