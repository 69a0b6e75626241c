// SPDX-License-Identifier: Apache-2.0
import { tryOut } from './try.mjs';

const scope = /** @type {any} */ (globalThis);
scope.oninstall = () => scope.skipWaiting();
scope.onactivate = (/** @type {any} */ event) => event.waitUntil(scope.clients.claim());
scope.onmessage = (/** @type {any} */ event) =>
  event.waitUntil(tryOut().then((result) => event.source.postMessage(result)));
