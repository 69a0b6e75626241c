// SPDX-License-Identifier: Apache-2.0
// Lets the pages work without a network after the first visit: what a page has loaded is kept, and is taken when the
// server cannot be reached. With a network nothing comes from here.

const KEPT = 'wisp-pages';

/** Scripts name others so; a page's workers load some that the page itself does not. */
const NAMED =
  /(?:from|import|import\()\s*["'](\.[^"']+\.js)["']|new Worker\(new URL\(["']([^"']+\.js)["']/g;

/**
 * Keeps files, and the scripts that these name.
 * @param {string[]} urls
 */
async function keep(urls) {
  const cache = await caches.open(KEPT);
  const all = new Set(urls);
  for (const url of all) {
    const response = (await cache.match(url)) ?? (await fetchAndKeep(cache, url));
    if (!response || !/\.js$/.test(new URL(url).pathname)) continue;
    for (const [, imported, worker] of (await response.text()).matchAll(NAMED))
      all.add(new URL(imported ?? worker, url).href);
  }
}

/** @param {Cache} cache @param {string} url */
async function fetchAndKeep(cache, url) {
  const response = await fetch(url).catch(() => undefined);
  if (response?.status !== 200) return undefined;
  await cache.put(url, response.clone());
  return response;
}

/** @param {Request} request */
async function answer(request) {
  const cache = await caches.open(KEPT);
  try {
    const response = await fetch(request);
    if (response.status === 200 && response.type === 'basic') {
      const kept = await cache.match(request.url);
      const tag = response.headers.get('etag');
      if (!kept || !tag || kept.headers.get('etag') !== tag) await cache.put(request.url, response.clone()); // prettier-ignore
    }
    return response;
  } catch (error) {
    const kept = await cache.match(request.url, { ignoreSearch: request.mode === 'navigate' });
    if (kept) return kept;
    throw error;
  }
}

const scope = /** @type {any} */ (globalThis);
scope.addEventListener('install', () => scope.skipWaiting());
scope.addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event;
  const isOwn = new URL(request.url).origin === scope.location.origin;
  if (isOwn && request.method === 'GET' && !request.headers.has('range'))
    event.respondWith(answer(request));
});
scope.addEventListener('message', (/** @type {any} */ event) => {
  event.waitUntil(keep(event.data.urls).then(() => event.ports[0]?.postMessage('kept')));
});
