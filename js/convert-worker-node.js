// SPDX-License-Identifier: Apache-2.0
// The script of a worker thread of Node that converts a model.
import { BytesOutput, HeldFiles } from './convert-files.js';
import { DiskFiles, DiskOutput } from './convert-files-node.js';
import { serveConvert } from './convert-worker.js';
import { listen } from './scope-node.js';

listen(
  serveConvert(({ files, descriptor }) => ({
    files: files ? new HeldFiles(files) : new DiskFiles(),
    output: descriptor === undefined ? new BytesOutput() : new DiskOutput(descriptor),
  })),
);
