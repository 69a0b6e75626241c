// SPDX-License-Identifier: Apache-2.0
// Small tools that the pages share.

/**
 * Returns the element with an id.
 * @template {HTMLElement} T
 * @param {string} id
 */
export const at = (id) => /** @type {T} */ (document.getElementById(id));

/** Returns a number of bytes in words. */
export const megabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** Returns a number of things in words, with the plural of their name if it is not 1. */
export const count = (/** @type {number} */ n, /** @type {string} */ what) =>
  `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

/** Shows what failed, and why. @param {string} what @param {any} error */
export function showFailure(what, error) {
  at('failure').hidden = false;
  at('failure-text').textContent = `${what} (${error.code ?? error.name}): ${error.message}`;
}

/**
 * Counts what the page fetches from now on.
 * @param {(requests: number) => void} show
 */
export function countRequests(show) {
  let requests = 0;
  show(0);
  new PerformanceObserver((list) => show((requests += list.getEntries().length))).observe({
    type: 'resource',
  });
}

/** Has what the page has loaded so far kept for visits without a network. */
export async function keepForLater() {
  const { serviceWorker } = navigator;
  if (!serviceWorker) return; // the page is not secure, or the browser is private
  try {
    await serviceWorker.register(new URL('./sw.js', import.meta.url), {
      scope: new URL('../', import.meta.url).href,
    });
    const { active } = await serviceWorker.ready;
    const loaded = performance.getEntriesByType('resource').map(({ name }) => name);
    const own = loaded.filter((name) => name.startsWith(location.origin));
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => (document.documentElement.dataset.kept = '');
    const urls = [location.origin + location.pathname, ...new Set(own)];
    active?.postMessage({ urls }, [port2]);
  } catch {
    // a server that does not allow it: the page needs its network
  }
}
