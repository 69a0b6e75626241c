// SPDX-License-Identifier: Apache-2.0
// Faults of servers: each sends something else in place of the ranges that were asked for. A test expects right rows
// or an error.
import { gzipSync } from 'node:zlib';

/** @typedef {import('./range-server.mjs').RangeServer} RangeServer */
/** @typedef {NonNullable<RangeServer['fault']>} Fault */

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
    'an error of the server, once': {
      fault: first((response) => void response.writeHead(503, { 'Retry-After': 0 }).end(), 1),
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
      fault: says((from, last) => ({
        'Content-Range': `bytes ${from - 1}-${last - 1}/${bytes.length}`,
      })),
      error: { code: 'io', message: /were asked for, and 'bytes \d+-\d+\/\d+' came/ },
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
  return { ranges, first, says, sendsAll, truncates };
}
