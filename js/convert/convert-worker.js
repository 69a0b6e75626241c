// SPDX-License-Identifier: Apache-2.0
// The code that runs in a worker that converts. It gets one request; to cancel it, the worker is terminated.
import { packError } from '../base/errors.js';
import { convertBy } from './convert-module.js';

/** Milliseconds between reports of progress. */
const REPORT_MS = 50;

/**
 * @param {(task: import('../../types/internal.js').ConvertTask) => {
 *   files: import('../../types/internal.js').ConvertFiles,
 *   output: import('../../types/internal.js').ConvertOutput }} open
 * @returns {(post: (reply: any, transfer: Transferable[]) => void) => (task: any) => Promise<void>}
 */
export const serveConvert = (open) => (post) => async (task) => {
  let reported = -Infinity;
  try {
    const { files, output } = open(task);
    await convertBy(files, output, task, (done, total) => {
      const now = performance.now();
      if (now - reported < REPORT_MS && done < total) return;
      reported = now;
      post({ type: 'progress', done, total }, []);
    });
    const { value, transfer } = output.end();
    post({ type: 'done', value }, transfer);
  } catch (error) {
    post({ type: 'failed', error: packError(error) }, []);
  }
};
