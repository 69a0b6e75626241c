// SPDX-License-Identifier: Apache-2.0
// A server of one file that sends ranges, and whatever else a test wants in their place.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

/** @typedef {import('node:http').IncomingMessage} Request */
/** @typedef {import('node:http').ServerResponse} Response */

/**
 * @typedef {object} RangeServer
 * @property {string} origin
 * @property {string} url
 * @property {Buffer} bytes the file; may be replaced
 * @property {string} etag of the file; '' for none
 * @property {[number, number][]} asked ranges, both ends included, since the last `forget`
 * @property {import('node:http').IncomingHttpHeaders[]} headers of these requests
 * @property {number} open answers that have not ended
 * @property {() => void} forget
 * @property {((response: Response, next: () => void, range: [number, number], number: number) => void) | undefined} fault
 *   answers the request of that number since the last `forget`, or calls `next`
 * @property {((path: string) => unknown) | undefined} told is called for requests of other files, which are answered
 *   when what it returns has come
 * @property {() => Promise<void>} close
 */

/**
 * @param {Buffer} bytes
 * @param {string} [site] the origin of a server that answers requests of other files
 * @returns {Promise<RangeServer>}
 */
export async function serveRanges(bytes, site) {
  const nameOf = (/** @type {Buffer} */ all) =>
    `"${createHash('sha256').update(all).digest('hex')}"`;
  /** @type {RangeServer} */
  const server = {
    origin: '',
    url: '',
    bytes,
    etag: nameOf(bytes),
    asked: [],
    headers: [],
    open: 0,
    forget() {
      server.asked = [];
      server.headers = [];
    },
    fault: undefined,
    told: undefined,
    close: () =>
      new Promise((done) => {
        http.close(() => done());
        http.closeAllConnections();
      }),
  };

  const isModel = (/** @type {Request} */ { url }) => String(url).split('?')[0] === '/model.gguf';

  /** @param {Request} request @param {Response} response */
  function answer(request, response) {
    response.setHeader('Access-Control-Allow-Origin', '*');
    response.setHeader('Access-Control-Expose-Headers', 'Content-Range, Content-Encoding, ETag');
    response.setHeader('Cross-Origin-Resource-Policy', 'cross-origin');
    if (request.method === 'OPTIONS') {
      const allowed = { 'Access-Control-Allow-Headers': 'range' };
      return void response.writeHead(204, allowed).end();
    }
    if (site && !isModel(request)) {
      return void fetch(site + request.url).then(async ({ status, headers, body }) => {
        response.writeHead(status, { 'Content-Type': headers.get('content-type') ?? '' });
        for await (const part of /** @type {any} */ (body ?? [])) response.write(part);
        response.end();
      });
    }
    if (!isModel(request)) {
      return void Promise.resolve(server.told?.(String(request.url))).then(() =>
        response.writeHead(204).end(),
      );
    }
    if (request.method !== 'GET') return void response.writeHead(405).end(); // as servers without HEAD do
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    const range = /** @type {[number, number]} */ ([Number(from), Number(to)]);
    server.asked.push(range);
    server.headers.push(request.headers);
    server.open++;
    response.on('close', () => server.open--);
    const next = () => {
      const isSame = server.etag !== '' && request.headers['if-none-match'] === server.etag;
      if (isSame) response.writeHead(304, { ETag: server.etag }).end();
      else send(response, server, range);
    };
    if (server.fault) server.fault(response, next, range, server.asked.length - 1);
    else next();
  }

  const http = createServer(answer);
  await new Promise((resolve) => http.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (http.address());
  server.origin = `http://127.0.0.1:${port}`;
  server.url = `${server.origin}/model.gguf`;
  return server;
}

/**
 * Sends a range as a good server does.
 * @param {Response} response
 * @param {{ bytes: Buffer, etag: string }} file
 * @param {[number, number]} range
 */
function send(response, { bytes, etag }, [from, to]) {
  if (etag) response.setHeader('ETag', etag);
  if (Number.isNaN(from)) {
    return void response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes);
  }
  if (from >= bytes.length) {
    return void response.writeHead(416, { 'Content-Range': `bytes */${bytes.length}` }).end();
  }
  const last = Math.min(to, bytes.length - 1);
  const headers = {
    'Content-Length': last + 1 - from,
    'Content-Range': `bytes ${from}-${last}/${bytes.length}`,
  };
  response.writeHead(206, headers).end(bytes.subarray(from, last + 1));
}
