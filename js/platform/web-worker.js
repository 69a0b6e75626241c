// SPDX-License-Identifier: Apache-2.0
// Web Workers: how one is started, and why it does not start.
import { NoWorkersError, WispError } from '../base/errors.js';
import { REMEDY, ownFile, resolve } from '../files/files.js';
import { htmlError, request } from '../files/source.js';

/**
 * A worker's script. Bundlers may change both its URL and its options.
 * @typedef {{ url: URL, options: WorkerOptions }} Script
 */

/**
 * @param {() => Worker} own
 * @param {string | URL | (() => Worker) | undefined} given
 * @param {number} startTimeout
 * @returns {import('../../types/internal.js').StartLink}
 */
export function startWorker(own, given, startTimeout) {
  return ({ reply, end }) => {
    const script = typeof given === 'function' ? undefined : scriptOf(own, given);
    const { worker, begun } = script
      ? makeWorker(script)
      : { worker: /** @type {() => Worker} */ (given)(), begun() {} };
    let hasBegun = false;
    const late = setTimeout(
      () => end(endError(`did not start in ${startTimeout} ms`)),
      Math.min(startTimeout, 2 ** 31 - 1), // a longer time is none for setTimeout
    );
    const stopped = new AbortController();
    worker.onmessage = ({ data }) => {
      if (!('hello' in data)) return reply(data);
      hasBegun = true;
      begun();
      clearTimeout(late);
      if (data.hello) waitForEnd(data.hello, stopped.signal, () => end(endError('ended')));
    };
    // Some browsers lack the property.
    worker.addEventListener('messageerror', () =>
      end(endError('sent a message that cannot be read')),
    );
    worker.onerror = async (event) => {
      event.preventDefault();
      clearTimeout(late);
      if (event.message) return end(endError(`failed: ${event.message}`, event.error));
      if (!script || hasBegun) return end(endError('could not load'));
      end(await whyNotLoaded(script.url, !given)); // the event does not say
    };
    return {
      post: (message, transfer) => worker.postMessage(message, transfer ?? []),
      hold() {},
      async stop() {
        begun();
        clearTimeout(late);
        stopped.abort();
        worker.terminate();
      },
    };
  };
}

/**
 * Returns the given script or the package's own. A bundler may put another URL and other options into
 * the expression for the latter, so it is evaluated with a Worker that only takes them down.
 * @param {() => Worker} own
 * @param {string | URL} [given]
 * @returns {Script}
 */
function scriptOf(own, given) {
  if (given) {
    return { url: resolve(given, 'worker'), options: { type: 'module', name: 'wisp' } };
  }
  const { Worker } = globalThis;
  /** @type {any} */
  let seen;
  /** @type {any} */ (globalThis).Worker = function (
    /** @type {any} */ url,
    /** @type {any} */ options,
  ) {
    seen = { url, options };
  };
  try {
    return {
      url: ownFile(() => {
        own();
        return resolve(seen.url, 'worker');
      }),
      options: seen.options,
    };
  } finally {
    globalThis.Worker = Worker;
  }
}

/**
 * Starts a worker. Browsers start none from another origin, such as a CDN, or from a page without an
 * origin, such as a sandboxed frame: there a script of this page imports the worker's.
 * @param {Script} script
 * @returns {{ worker: Worker, begun: () => void }} begun is to be called when the script runs
 */
function makeWorker({ url, options }) {
  try {
    if (url.origin === globalThis.origin || !url.protocol.startsWith('http')) {
      return { worker: new Worker(trusted(url.href), options), begun() {} };
    }
    const isModule = options?.type === 'module';
    const line = `${isModule ? 'import' : 'importScripts('}${JSON.stringify(url)}${isModule ? '' : ')'};`;
    const href = URL.createObjectURL(new Blob([line], { type: 'text/javascript' }));
    return {
      worker: new Worker(trusted(href), options),
      begun: () => URL.revokeObjectURL(href),
    };
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    throw new NoWorkersError(`this page may not start a worker from ${url}: ${message}`, cause);
  }
}

/** @type {any} */
let policy;

/**
 * Returns the address in the form that pages with Trusted Types demand.
 * @param {string} href
 */
function trusted(href) {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  if (!trustedTypes) return href;
  try {
    policy ??= trustedTypes.createPolicy('wisp-engine', {
      createScriptURL: (/** @type {string} */ url) => url,
    });
  } catch {
    return href; // the page allows no such policy, and perhaps demands none
  }
  return policy.createScriptURL(href);
}

/**
 * Returns why a script was not loaded: it, or a file that it imports, is missing, or else the page's
 * policy forbids it.
 * @param {URL} url
 * @param {boolean} own
 */
async function whyNotLoaded(url, own) {
  try {
    const text = await fetchScript(url);
    const imports = [...text.matchAll(/(?:from|import)\s*['"](\.[^'"]+)/g)];
    await Promise.all(imports.map(([, name]) => fetchScript(new URL(name, url))));
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    const remedy = own ? REMEDY : "give the option worker the URL of wisp-engine's worker script";
    return endError(`could not load: ${message}. ${remedy}`, cause);
  }
  return new NoWorkersError(
    `this page may not start a worker from ${url}: Content-Security-Policy (worker-src) or ` +
      'Cross-Origin-Embedder-Policy',
  );
}

/** @param {URL} url */
async function fetchScript(url) {
  const text = await (await request(url, new AbortController().signal)).text();
  if (/^\s*</.test(text)) throw htmlError(url);
  return text;
}

/**
 * @param {string} lock that a worker holds as long as it lives
 * @param {AbortSignal} signal
 * @param {() => void} ended
 */
function waitForEnd(lock, signal, ended) {
  navigator.locks.request(lock, { signal }, ended).catch(() => {}); // it was aborted
}

/**
 * @param {string} what
 * @param {unknown} [cause]
 */
function endError(what, cause) {
  return new WispError('worker', `a worker ${what}`, { cause });
}
