// SPDX-License-Identifier: Apache-2.0
// Serves files of this checkout to the measured pages, on a free port of this machine alone.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** @type {Record<string, string>} */
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
};

/** These headers make a page cross-origin isolated; other pages get no shared memory. */
const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** Browsers request each file once, as from a site whose file names change with the contents. */
const CACHING = { 'Cache-Control': 'public, max-age=3600, immutable' };

/**
 * Starts the server. `takeRequests` returns the paths of the files sent since its last call.
 * @param {{ isolated: boolean, onRows: (bytes: Buffer) => void }} options `onRows` gets the rows that a page posts
 * @returns {Promise<{ origin: string, takeRequests: () => string[], close: () => void }>}
 */
export async function serveFiles({ isolated, onRows }) {
  const headers = { ...CACHING, ...(isolated ? ISOLATION : {}) };
  /** @type {string[]} */
  let sent = [];
  const server = createServer(async (request, response) => {
    if (request.method === 'POST') {
      onRows(await readBody(request));
      response.writeHead(204, headers).end();
      return;
    }
    const path = pathOf(request.url ?? '/');
    if (await sendFile(path, response, headers)) sent.push(path);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', () => done(undefined)));
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${address.port}`,
    takeRequests() {
      const taken = sent;
      sent = [];
      return taken;
    },
    close: () => server.close(),
  };
}

/** @param {string} url */
const pathOf = (url) => normalize(decodeURIComponent(new URL(url, 'http://here').pathname));

/** @param {import('node:http').IncomingMessage} request */
async function readBody(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

/**
 * Sends a file of the checkout, or 404. Returns whether the file exists.
 * @param {string} name
 * @param {import('node:http').ServerResponse} response
 * @param {Record<string, string>} headers
 */
async function sendFile(name, response, headers) {
  const path = join(ROOT, name);
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) {
    response.writeHead(404, headers).end();
    return false;
  }
  const type = TYPES[extname(path)] ?? 'application/octet-stream';
  response.writeHead(200, {
    ...headers,
    'Content-Type': type,
    'Content-Length': found.size,
    'Last-Modified': found.mtime.toUTCString(),
  });
  createReadStream(path).pipe(response);
  return true;
}
