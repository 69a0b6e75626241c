// SPDX-License-Identifier: Apache-2.0
// Serves files to this machine alone: for `wisp-engine serve-demo`, and in a checkout for pages and tests.
import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the package, or of the checkout. */
const ROOT = await realpath(fileURLToPath(new URL('..', import.meta.url)));

/** @type {Record<string, string>} */
const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.md': 'text/plain; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
};

/** These headers make a page cross-origin isolated; other pages get no shared memory. */
const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/**
 * Serves the files of a folder to this machine alone.
 * @param {{ port?: number, isolated?: boolean, root?: string, more?: Record<string, string>,
 *   page?: (path: string) => { headers?: Record<string, string>, body: string } | undefined }}
 *   [options] port 0 takes any free port; `more` are further headers; `page` gives pages that are no files
 * @returns {Promise<{ origin: string, close: () => Promise<void> }>}
 */
export async function serve({ port = 0, isolated = false, root = ROOT, more = {}, page } = {}) {
  const headers = {
    'Cache-Control': 'no-cache',
    'X-Content-Type-Options': 'nosniff',
    ...(isolated ? ISOLATION : {}),
    ...more,
  };
  const server = createServer(async (request, response) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return void response.writeHead(405, { Allow: 'GET, HEAD' }).end();
    }
    const made = page?.(request.url ?? '/');
    if (made) {
      const about = { ...headers, 'Content-Type': TYPES['.html'], ...made.headers };
      return void response.writeHead(200, about).end(made.body);
    }
    const found = await find(root, request.url ?? '/');
    if (!found) return void response.writeHead(404, headers).end('not found\n');
    const { path, size, modified } = found;
    const type = TYPES[extname(path)] ?? 'application/octet-stream';
    const etag = `"${size.toString(16)}-${modified.toString(16)}"`;
    if (request.headers['if-none-match'] === etag) {
      return void response.writeHead(304, { ...headers, ETag: etag }).end();
    }
    const about = { 'Content-Type': type, 'Content-Length': size, ETag: etag };
    response.writeHead(200, { ...headers, ...about });
    if (request.method === 'HEAD') return void response.end();
    createReadStream(path)
      .on('error', () => response.destroy())
      .pipe(response);
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(undefined));
  });
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${address.port}`,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

/**
 * Finds the file of an address; for a folder that is its index.html. Returns undefined where there
 * is no file, or where it is hidden or lies outside the root.
 * @param {string} root
 * @param {string} url
 */
async function find(root, url) {
  try {
    const name = decodeURIComponent(new URL(url, 'file:///').pathname);
    if (name.includes('/.')) return undefined;
    const path = await realpath(join(root, name, name.endsWith('/') ? 'index.html' : ''));
    if (!path.startsWith(root.endsWith(sep) ? root : root + sep)) return undefined;
    const about = await stat(path);
    return about.isFile()
      ? { path, size: about.size, modified: Math.trunc(about.mtimeMs) }
      : undefined;
  } catch {
    return undefined;
  }
}
