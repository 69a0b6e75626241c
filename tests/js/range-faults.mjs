// SPDX-License-Identifier: Apache-2.0
// Faults of servers: each sends something else instead of the ranges that were asked for. A test expects right rows
// or an error.
import { gzipSync } from 'node:zlib';

/** @typedef {import('./range-server.mjs').RangeServer} RangeServer */
/** @typedef {NonNullable<RangeServer['fault']>} Fault */

const PAGE = '<!doctype html><title>Log in</title>';

/**
 * @param {RangeServer | undefined} server whose faults they are
 * @param {Buffer} bytes its file
 */
export function rangeFaults(server, bytes) {
  const etag = server?.etag ?? '"one"';
  /** Sends a part of what was asked for, and says that it is that. @type {Fault} */
  const sendsSome = (response, _, [from, to]) => {
    const last = from + Math.floor((Math.min(to, bytes.length - 1) - from) / 2);
    response.setHeader('ETag', etag);
    response.writeHead(206, { 'Content-Range': `bytes ${from}-${last}/${bytes.length}` });
    response.end(bytes.subarray(from, last + 1));
  };

  /** Says more than it sends. @type {(ends: 'end' | 'destroy') => Fault} */
  const truncates =
    (ends) =>
    (response, _, [from, to]) => {
      const last = Math.min(to, bytes.length - 1);
      response.setHeader('ETag', etag);
      response.writeHead(206, { 'Content-Range': `bytes ${from}-${last}/${bytes.length}` });
      response.write(bytes.subarray(from, (from + last) >> 1), () => response[ends]());
    };

  /** Sends a byte each so many milliseconds. @type {(pause: number) => Fault} */
  const drips =
    (pause) =>
    (response, _, [from, to]) => {
      const last = Math.min(to, bytes.length - 1);
      let at = from;
      const drip = () => response.write(bytes.subarray(at, ++at));
      response.setHeader('ETag', etag);
      response.writeHead(206, { 'Content-Range': `bytes ${from}-${last}/${bytes.length}` });
      drip();
      const timer = setInterval(drip, pause);
      response.on('close', () => clearInterval(timer));
    };

  /** @type {(headers: (from: number, last: number) => Record<string, string | number>, more?: number) => Fault} */
  const says =
    (headers, more = 0) =>
    (response, _, [from, to]) => {
      const last = Math.min(to, bytes.length - 1);
      response.writeHead(206, {
        ETag: etag,
        'Content-Range': `bytes ${from}-${last}/${bytes.length}`,
        ...headers(from, last),
      });
      response.end(Buffer.concat([bytes.subarray(from, last + 1), Buffer.alloc(more)]));
    };

  /** @type {Fault} */
  const sendsAll = (response) => void response.writeHead(200, { ETag: etag }).end(bytes);

  /** @type {(fault: Fault, times: number) => Fault} */
  const first = (fault, times) => (response, next, range, number) =>
    number < times ? fault(response, next, range, number) : next();

  /** @type {(status: number, headers?: Record<string, string | number>) => Fault} */
  const refuses = (status, headers) => (response) => void response.writeHead(status, headers).end();

  /** Sends another range than was asked for. @type {Fault} */
  const sendsAnother = says((from, last) => ({
    'Content-Range': `bytes ${from - 1}-${last - 1}/${bytes.length}`,
  }));

  /** The addresses, each good once, to which `leadsOn` leads. */
  const good = new Set();
  let given = 0;
  /** Leads each request on to an address of its own, of which the first has expired. @type {Fault} */
  const leadsOn = (response, next) => {
    const [, name] = /signed=(\d+)$/.exec(String(response.req.url)) ?? [];
    if (name) return void (good.delete(name) ? next() : response.writeHead(403).end());
    if (given++ > 0) good.add(String(given));
    const { pathname } = new URL(String(response.req.url), 'http://any');
    response.writeHead(302, { Location: `${pathname}?signed=${given}` }).end();
  };

  /** @type {Record<string, { fault: Fault, error?: { code: string, message: RegExp } }>} */
  const ranges = {
    'less than was asked for': { fault: first(sendsSome, 3) },
    'a body that ends early': { fault: first(truncates('end'), 2) },
    'a connection that breaks': { fault: first(truncates('destroy'), 2) },
    'no answer, once': { fault: first((response) => response.destroy(), 1) },
    'no answer, ever': {
      fault: (response) => response.destroy(),
      error: { code: 'io', message: /cannot reach http/ },
    },
    "a byte that is not the file's": {
      fault: (response, _, [from, to]) => {
        const last = Math.min(to, bytes.length - 1);
        const part = Buffer.from(bytes.subarray(from, last + 1));
        part[part.length >> 1] ^= 1;
        response.setHeader('ETag', etag);
        response.writeHead(206, { 'Content-Range': `bytes ${from}-${last}/${bytes.length}` });
        response.end(part);
      },
      error: { code: 'format', message: /chunk \d+/ },
    },
    'no byte, ever': {
      fault: (response, _, [from, to]) => {
        response.writeHead(206, { ETag: etag, 'Content-Range': `bytes ${from}-${to}/${bytes.length}` }); // prettier-ignore
        response.end();
      },
      error: { code: 'io', message: /bytes \d+ to \d+: the transfer ends after 0 of \d+ bytes/ },
    },
    'the whole file': { fault: sendsAll },
    'the whole file of another size': {
      fault: (response) => void response.writeHead(200, { ETag: etag }).end(bytes.subarray(1)),
      error: { code: 'io', message: /the transfer ends|has changed/ },
    },
    'an error of the server, once': { fault: first(refuses(503, { 'Retry-After': 0 }), 1) },
    'an error of the server that says nothing of a pause, once': { fault: first(refuses(500), 1) },
    'too many requests: come again after a second, once': {
      fault: first(refuses(429, { 'Retry-After': 1 }), 1),
    },
    'that a request took too long, once': { fault: first(refuses(408, { 'Retry-After': 0 }), 1) },
    'a pause that is too long to wait for': {
      fault: refuses(503, { 'Retry-After': 3600 }),
      error: { code: 'io', message: /HTTP 503/ },
    },
    '401, once': { fault: first(refuses(401), 1) },
    '403, once, as for an address that has just expired': { fault: first(refuses(403), 1) },
    403: { fault: refuses(403), error: { code: 'io', message: /HTTP 403/ } },
    'redirects to addresses that are good once, the first of which has expired': { fault: leadsOn },
    'a redirect to itself': {
      fault: (response) =>
        void response.writeHead(302, { Location: String(response.req.url) }).end(),
      error: { code: 'io', message: /redirect/ },
    },
    416: {
      fault: (response) => void response.writeHead(416).end(),
      error: { code: 'io', message: /has changed.*no bytes \d+ to/ },
    },
    404: {
      fault: (response) => void response.writeHead(404).end(),
      error: { code: 'not_found', message: /HTTP 404/ },
    },
    204: {
      fault: (response) => void response.writeHead(204, { ETag: etag }).end(),
      error: { code: 'io', message: /answers 204/ },
    },
    'another file': {
      fault: says(() => ({ ETag: '"two"' })),
      error: { code: 'io', message: /has changed.*it was "one", and is "two"/ },
    },
    'a file without a state': {
      fault: (response, next) => {
        const { setHeader } = response;
        response.setHeader = (name, value) =>
          name === 'ETag' ? response : setHeader.call(response, name, value);
        next();
      },
      error: { code: 'io', message: /has changed/ },
    },
    'another size': {
      fault: says((from, last) => ({
        'Content-Range': `bytes ${from}-${last}/${bytes.length + 1}`,
      })),
      error: { code: 'io', message: /has changed.*it had \d+ bytes/ },
    },
    'another range': {
      fault: sendsAnother,
      error: { code: 'io', message: /were asked for, but 'bytes \d+-\d+\/\d+' came/ },
    },
    'another range, once': { fault: first(sendsAnother, 1) },
    'several ranges as one body': {
      fault: (response, _, [from, to]) => {
        const part = `Content-Range: bytes ${from}-${to}/${bytes.length}\r\n\r\n`;
        response.writeHead(206, { ETag: etag, 'Content-Type': 'multipart/byteranges; boundary=x' });
        response.end(Buffer.concat([Buffer.from(`--x\r\n${part}`), bytes.subarray(from, to + 1)]));
      },
      error: { code: 'io', message: /were asked for/ },
    },
    'a page in its place': {
      fault: (response) =>
        void response.writeHead(200, { 'Content-Length': PAGE.length }).end(PAGE),
      error: { code: 'io', message: /has changed/ },
    },
    'a page in its place, of the same name': {
      fault: (response) =>
        void response.writeHead(200, { 'Content-Length': PAGE.length, ETag: etag }).end(PAGE),
      error: { code: 'io', message: /has changed.*it had \d+ bytes/ },
    },
    'the whole of another file': {
      fault: (response) => void response.writeHead(200, { ETag: '"two"' }).end(bytes),
      error: { code: 'io', message: /has changed.*it was "one", and is "two"/ },
    },
    'a size that no number holds': {
      fault: says((from, last) => ({ 'Content-Range': `bytes ${from}-${last}/${2n ** 63n}` })),
      error: { code: 'io', message: /were asked for|has changed/ },
    },
    'a longer range': {
      fault: says((from, last) => ({
        'Content-Range': `bytes ${from}-${last + 1}/${bytes.length}`,
      })),
      error: { code: 'io', message: /were asked for/ },
    },
    'no Content-Range': {
      fault: says(() => ({ 'Content-Range': 'none' })),
      error: { code: 'io', message: /'none' came/ },
    },
    'a longer body': {
      fault: says(() => ({}), 9),
      error: { code: 'io', message: /more bytes came than/ },
    },
    'a compressed range': {
      fault: (response, _, [from, to]) => {
        const body = gzipSync(bytes.subarray(from, to + 1));
        response.writeHead(206, {
          ETag: etag,
          'Content-Encoding': 'gzip',
          'Content-Range': `bytes ${from}-${to}/${bytes.length}`,
        });
        response.end(body);
      },
      error: { code: 'io', message: /compresses ranges \(gzip\)/ },
    },
  };
  /** Faults while a model is opened. @type {Record<string, { fault: Fault, error?: { code: string, message: RegExp }, mode?: string }>} */
  const opening = {
    'the whole file': { fault: sendsAll, mode: 'all' },
    'the whole file, compressed': {
      fault: (response) =>
        void response.writeHead(200, { 'Content-Encoding': 'gzip' }).end(gzipSync(bytes)),
      mode: 'all',
    },
    'a body that ends early': { fault: first(truncates('end'), 2) },
    'the whole file, which breaks off': {
      fault: first((response) => {
        response.writeHead(200, { ETag: etag, 'Content-Length': bytes.length });
        response.write(bytes.subarray(0, 50_000), () => response.destroy());
      }, 2),
    },
    'a weak name': {
      fault: (response, next) => {
        const { setHeader } = response;
        response.setHeader = (name, value) =>
          setHeader.call(response, name, name === 'ETag' ? `W/${value}` : value);
        next();
      },
    },
    'redirects to addresses that are good once': {
      fault: (...given) => void (leadsOn(...given), good.add('1')),
    },
    'a page': {
      fault: (response) => void response.writeHead(200).end(PAGE),
      error: { code: 'format', message: /an HTML page and not the file/ },
    },
    'no Content-Range': {
      fault: says(() => ({ 'Content-Range': 'bytes 0-9/*' })),
      error: { code: 'io', message: /were asked for, but 'bytes 0-9\/\*' came/ },
    },
    'a size that no number holds': {
      fault: says((from, last) => ({ 'Content-Range': `bytes ${from}-${last}/${2n ** 63n}` })),
      error: { code: 'io', message: /were asked for/ },
    },
    404: { fault: refuses(404), error: { code: 'not_found', message: /HTTP 404/ } },
    403: { fault: refuses(403), error: { code: 'io', message: /HTTP 403/ } },
    'a file that ends in its header': {
      fault: (response) => void response.writeHead(200).end(bytes.subarray(0, 3000)),
      error: { code: 'format', message: /model.gguf/ },
    },
  };
  return { ranges, opening, first, drips };
}
