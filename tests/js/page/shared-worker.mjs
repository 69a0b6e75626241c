// SPDX-License-Identifier: Apache-2.0
import { tryOut } from './try.mjs';

const scope = /** @type {any} */ (globalThis);
scope.onconnect = async (/** @type {any} */ { ports }) => ports[0].postMessage(await tryOut());
