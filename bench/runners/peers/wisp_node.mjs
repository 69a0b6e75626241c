// SPDX-License-Identifier: Apache-2.0
import { resolve } from 'node:path';
import { Embedder } from '../../../js/node.js';
import { openPackage } from './wisp_package.mjs';

/** @param {{ model: string, threads: number, addon?: string, 'one-engine'?: boolean }} options */
export const open = ({ model, threads, addon, 'one-engine': oneEngine }) =>
  openPackage(Embedder, model, {
    ...(oneEngine ? { workers: 1, threads } : { workers: threads }),
    ...(addon ? { addon: resolve(addon) } : { backend: 'wasm' }),
  });
