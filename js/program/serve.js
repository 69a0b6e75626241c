// SPDX-License-Identifier: Apache-2.0
// Serves files to this machine only: for `wisp-engine serve-demo`, and in a checkout for pages and tests.
import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, sep } from 'node:path';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** The folder of the package, or of the checkout. */
const ROOT = await realpath(fileURLToPath(new URL('../..', import.meta.url)));

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
 * Whether a request names this machine. Any page could make its own name lead here, and read what is served.
 * @param {string | undefined} host
 */
export const isLocal = (host) =>
  /^(localhost|[\w-]+\.localhost|127(\.\d{1,3}){3}|\[::1])(:\d+)?$/i.test(host ?? '');

/**
 * Serves the files of a folder to this machine only, also in parts.
 * @param {{ port?: number, isolated?: boolean, root?: string, more?: Record<string, string>, files?: Record<string, string>,
 *   folders?: readonly string[], page?: (path: string) => { headers?: Record<string, string>, body: string } | undefined }}
 *   [options] port 0 takes any free port; `more` are further headers; `page` gives pages that are not files; `files` has the
 *   paths on disk of addresses such as /a/b; other files are served only from `folders`
 * @returns {Promise<{ origin: string, close: () => Promise<void> }>}
 */
export async function serve(options = {}) {
  const { port = 0, isolated = false, root = ROOT, more = {}, files = {}, folders, page } = options;
  const headers = {
    'Cache-Control': 'no-cache',
    'X-Content-Type-Options': 'nosniff',
    'Service-Worker-Allowed': '/', // the pages' one is for the folders beside them, too
    ...(isolated ? ISOLATION : {}),
    ...more,
  };
  const server = createServer(async (request, response) => {
    if (!isLocal(request.headers.host)) {
      return void response.writeHead(421, headers).end('only for localhost\n');
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return void response.writeHead(405, { Allow: 'GET, HEAD' }).end();
    }
    const made = page?.(request.url ?? '/');
    if (made) {
      const about = { ...headers, 'Content-Type': TYPES['.html'], ...made.headers };
      return void response.writeHead(200, about).end(made.body);
    }
    const found = await find(root, files, request.url ?? '/', folders);
    if (!found) return void response.writeHead(404, headers).end('not found\n');
    const { path, size, modified } = found;
    const type = TYPES[extname(path)] ?? 'application/octet-stream';
    const etag = `"${size.toString(16)}-${modified.toString(16)}"`;
    if (request.headers['if-none-match'] === etag) {
      return void response.writeHead(304, { ...headers, ETag: etag }).end();
    }
    const about = { ...headers, 'Content-Type': type, 'Accept-Ranges': 'bytes', ETag: etag };
    const expected = request.headers['if-range'];
    const range =
      expected !== undefined && expected !== etag
        ? undefined
        : rangeOf(request.headers.range, size);
    if (range && range[0] >= size) {
      return void response.writeHead(416, { ...about, 'Content-Range': `bytes */${size}` }).end();
    }
    const [start, end] = range ?? [0, size];
    response.writeHead(range ? 206 : 200, {
      ...about,
      'Content-Length': end - start,
      ...(range && { 'Content-Range': `bytes ${start}-${end - 1}/${size}` }),
    });
    if (request.method === 'HEAD' || start === end) return void response.end();
    pipeline(createReadStream(path, { start, end: end - 1 }), response, () => {}); // closes both
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
 * Returns the bytes that are asked for, as [start, end). A list of ranges, or one that counts from the end of the file, is
 * answered with the whole file, as HTTP allows; then it returns undefined.
 * @param {string | undefined} header
 * @param {number} size of the file
 */
function rangeOf(header, size) {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(header ?? '') ?? [];
  if (from === undefined || (to !== '' && Number(to) < Number(from))) return undefined;
  return [Number(from), to === '' ? size : Math.min(Number(to) + 1, size)];
}

/**
 * Finds the file of an address; for a folder that is its index.html. Returns undefined if there
 * is not a file, or if it is hidden or is outside the root.
 * @param {string} root
 * @param {Record<string, string>} files
 * @param {string} url
 * @param {readonly string[]} [folders]
 */
async function find(root, files, url, folders) {
  try {
    const name = decodeURIComponent(new URL(url, 'file:///').pathname);
    const isOwn = Object.hasOwn(files, name);
    if (name.includes('/.')) return undefined;
    const path = isOwn
      ? files[name]
      : await realpath(join(root, name, name.endsWith('/') ? 'index.html' : ''));
    const start = root.endsWith(sep) ? root : root + sep;
    if (!isOwn && !path.startsWith(start)) return undefined;
    if (!isOwn && folders && !folders.includes(path.slice(start.length).split(sep)[0])) {
      return undefined;
    }
    const about = await stat(path);
    return about.isFile()
      ? { path, size: about.size, modified: Math.trunc(about.mtimeMs) }
      : undefined;
  } catch {
    return undefined;
  }
}
