// SPDX-License-Identifier: Apache-2.0
// wisp-engine/hub as Node imports it.
export { WispError } from './base/errors.js';
export { deleteCached, fromHub, listCached } from './hub/hub-node.js';
