// SPDX-License-Identifier: Apache-2.0
// Pages and workers whose rules differ from a plain page's: the package runs, or falls back to the calling
// thread and says why. docs/compat.md lists them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from '../../js/program/serve.js';
import { CHROMIUM } from './browsers.mjs';
import { noTool } from './support.mjs';

describe('environments', { skip: noTool('chromium') }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof serve>>} */
  let site;
  /** The headers and body of /page.html. */
  let shown = { headers: /** @type {Record<string, string>} */ ({}), body: '' };
  /** @type {Awaited<ReturnType<typeof serve>>} a CDN: every origin may read it */
  let cdn;
  before(async () => {
    site = await serve({ page: (path) => (path === '/page.html' ? shown : undefined) });
    const open = {
      'Access-Control-Allow-Origin': '*',
      'Cross-Origin-Resource-Policy': 'cross-origin',
    };
    cdn = await serve({ more: open });
    browser = await chromium.launch(CHROMIUM);
  });
  after(async () => {
    await browser.close();
    await Promise.all([site.close(), cdn.close()]);
  });

  /**
   * Runs a script in a page of the site.
   * @param {string} script whose value is the result
   * @param {{ csp?: string, html?: string, headers?: Record<string, string> }} [options]
   */
  async function inPage(script, { csp = '', html = '', headers = {} } = {}) {
    const page = await browser.newPage();
    try {
      shown = {
        headers: csp ? { ...headers, 'Content-Security-Policy': csp } : headers,
        body: `<!doctype html><link rel="icon" href="data:," />${html}`,
      };
      await page.goto(`${site.origin}/page.html`);
      const late = new Promise((_, reject) => {
        setTimeout(() => reject(new Error('the page gave no result')), 60_000).unref();
      });
      return await Promise.race([page.evaluate(`(async () => { ${script} })()`), late]);
    } finally {
      await page.close();
    }
  }

  const TRY = '/tests/js/page/try.mjs';

  /** @param {string} origin @param {string} [options] */
  const tryFrom = (origin, options = '') =>
    `return (await import('${origin}${TRY}')).tryOut(${options})`;

  const worksHere = { count: 3, workers: 2, reason: 'asked for' };

  test('another origin, such as a CDN: workers start', async () => {
    assert.deepEqual(await inPage(tryFrom(cdn.origin, '{ workers: 2 }')), worksHere);
  });

  test('another origin: threads start, too', async () => {
    const headers = {
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cross-Origin-Embedder-Policy': 'require-corp',
    };
    const script = `
      await import('${cdn.origin}/js/threads-browser.js');
      const { Embedder } = await import('${cdn.origin}/js/browser.js');
      const embedder = await Embedder.load(undefined, { threads: 2 });
      const { threads, reasons } = embedder.info();
      const { count } = await embedder.embed(['a', 'b']);
      await embedder.close();
      return { threads, reason: reasons.threads, count };`;
    assert.deepEqual(await inPage(script, { headers }), {
      threads: 2,
      reason: 'asked for',
      count: 2,
    });
  });

  test('another origin, and a policy without blob: the calling thread, and why', async () => {
    const csp = `script-src ${cdn.origin} 'unsafe-eval' 'wasm-unsafe-eval'; worker-src 'self'`;
    const found = await inPage(tryFrom(cdn.origin), { csp });
    assert.deepEqual([found.count, found.workers], [3, 0]);
    assert.match(found.reason, /may not start a worker from http.*worker-browser\.js/);
    const asked = await inPage(tryFrom(cdn.origin, '{ workers: 2 }'), { csp });
    assert.equal(asked.code, 'worker');
    assert.match(asked.message, /worker-browser\.js.*\{ workers: 0 \}/s);
  });

  test("a policy with worker-src 'none': the calling thread, and why", async () => {
    const csp = "script-src 'self' 'unsafe-eval' 'wasm-unsafe-eval'; worker-src 'none'";
    const found = await inPage(tryFrom(''), { csp });
    assert.deepEqual([found.count, found.workers], [3, 0]);
    assert.match(found.reason, /may not start a worker/);
  });

  test('Trusted Types: workers start by the policy wisp-engine', async () => {
    const csp = "require-trusted-types-for 'script'; trusted-types wisp-engine";
    assert.deepEqual(await inPage(tryFrom('', '{ workers: 2 }'), { csp }), worksHere);
    const without = await inPage(tryFrom(''), {
      csp: "require-trusted-types-for 'script'; trusted-types other",
    });
    assert.deepEqual([without.count, without.workers], [3, 0]);
    assert.match(without.reason, /TrustedScriptURL/);
  });

  test('a sandboxed frame, which has no origin: the calling thread, and why', async () => {
    const script = `const { tryOut } = await import('${cdn.origin}${TRY}');
      parent.postMessage(await tryOut(), '*');`;
    const html = `<iframe sandbox="allow-scripts" srcdoc="<script type=module>${script}</script>"></iframe>`;
    const found = await inPage(
      `return new Promise((done) => { addEventListener('message', ({ data }) => done(data));
         document.querySelector('iframe').srcdoc += ' '; })`,
      { html },
    );
    assert.deepEqual([found.count, found.workers], [3, 0]);
    assert.match(found.reason, /may not start a worker/);
  });

  test('a SharedWorker: the calling thread, and why', async () => {
    const found = await inPage(
      `const worker = new SharedWorker('/tests/js/page/shared-worker.mjs', { type: 'module' });
       return new Promise((done) => { worker.port.onmessage = ({ data }) => done(data); })`,
    );
    assert.deepEqual([found.count, found.workers], [3, 0]);
    assert.match(found.reason, /cannot start workers/);
  });

  test('a service worker: the calling thread, and why', async () => {
    const found = await inPage(
      `const url = '/tests/js/page/service-worker.mjs';
       const { installing } = await navigator.serviceWorker.register(url, { type: 'module' });
       return new Promise((done) => {
         navigator.serviceWorker.onmessage = ({ data }) => done(data);
         navigator.serviceWorker.startMessages();
         installing.onstatechange = () => {
           if (installing.state === 'activated') installing.postMessage('go');
         };
       })`,
    );
    assert.deepEqual([found.count, found.workers], [3, 0]);
    assert.match(found.reason, /cannot start workers/);
  });

  test('inside a dedicated worker: workers of its own', async () => {
    const found = await inPage(
      `const url = URL.createObjectURL(new Blob(["import { tryOut } from '${site.origin}${TRY}';" +
         "postMessage(await tryOut({ workers: 2 }))"], { type: 'text/javascript' }));
       const worker = new Worker(url, { type: 'module' });
       return new Promise((done) => { worker.onmessage = ({ data }) => done(data); })`,
    );
    assert.deepEqual(found, worksHere);
  });

  test('files that are elsewhere: the option files, and without it the line to write', async () => {
    const page = await browser.newPage();
    // The scripts alone are at /moved/, as a bundler leaves them.
    await page.route('**/moved/**', async (route) => {
      const path = new URL(route.request().url()).pathname.replace('/moved', '');
      if (!/\.js$/.test(path) || /worker-/.test(path)) {
        return route.fulfill({ contentType: 'text/html', body: '<!doctype html>start page' });
      }
      return route.fulfill({ response: await route.fetch({ url: site.origin + path }) });
    });
    await page.goto(`${site.origin}/tests/js/page/blank.html`);
    const load = (/** @type {string} */ options) =>
      page.evaluate(`import('/moved/js/browser.js').then(async ({ Embedder }) => {
        const embedder = await Embedder.load(undefined, ${options}).catch(({ message }) => message);
        return typeof embedder === 'string' ? embedder : (await embedder.embed('x')).count;
      })`);
    assert.equal(await load("{ workers: 2, files: '/' }"), 1);
    const line = /Copy the folders js and models.*files: '\/that\/folder\/'/;
    assert.match(await load('{}'), /moved\/(js\/wisp|models).* is an HTML page/);
    assert.match(await load('{}'), line);
    const given = "{ workers: 2, wasm: '/js/wisp-simd128.wasm' }";
    await page.route('**/moved/models/**', (route) =>
      route.fulfill({ path: new URL('../../models/wisp-default.gguf', import.meta.url).pathname }),
    );
    assert.match(
      await load(given),
      /a worker could not load: .*worker-browser\.js is an HTML page/,
    );
    assert.match(await load(given), line);
    await page.close();
  });

  test('a hidden tab does not slow the calling thread down', async () => {
    const chunks = await inPage(
      `const { setTimeout } = globalThis;
       let timers = 0;
       globalThis.setTimeout = (...given) => (timers++, setTimeout(...given));
       const { Embedder } = await import('/js/browser.js');
       const embedder = await Embedder.load(undefined, { workers: 0 });
       timers = 0; // loading has some, which only end a transfer that stalls
       await embedder.embed(Array.from({ length: 40 }, (_, i) => 'some words '.repeat(20) + i));
       return timers`,
    );
    assert.equal(chunks, 0, 'it waits for timers, which hidden tabs delay by a second');
  });
});
