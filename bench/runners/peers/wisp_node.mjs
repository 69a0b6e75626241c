// SPDX-License-Identifier: Apache-2.0
import { Embedder } from '../../../js/node.js';
import { openPackage } from './wisp_package.mjs';

/** @param {{ model: string, threads: number }} options */
export const open = ({ model, threads }) => openPackage(Embedder, model, threads);
