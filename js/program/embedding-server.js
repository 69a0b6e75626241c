// SPDX-License-Identifier: Apache-2.0
// The server of `wisp-engine serve`: /v1/embeddings, /v1/models and /health as `wisp serve` has them, on node:http. What
// this model cannot do goes to another server, if there is one.
import { timingSafeEqual, createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { WispError } from '../base/errors.js';
import { printFloat } from './cli-output.js';
import { isLocal } from './serve.js';

/** Limits of a request, those of the native server. */
const MOST_BYTES = 32e6;
const MOST_TEXTS = 2048;

/** How long requests under way may take when the server ends, in milliseconds. */
const CLOSING_MS = 30_000;

/**
 * @typedef {import('node:http').IncomingMessage} Request
 * @typedef {import('node:http').ServerResponse} Response
 * @typedef {{
 *   embedder: import('../node.js').Embedder, name: string, loopback: boolean, mostWaiting: number,
 *   key?: string | undefined, upstream?: { url: string, key?: string | undefined } | undefined,
 * }} ServerOptions `mostWaiting` texts may wait; `key` is asked for; `upstream` gets what this server cannot do
 */

/** A reply that is an error, in OpenAI's form. */
class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string | null} [field] of the request
   */
  constructor(status, message, field = null) {
    super(field === null ? message : `${field}: ${message}`);
    this.status = status;
    this.field = field;
  }
}

const TYPES = /** @type {Record<number, string>} */ ({
  401: 'authentication_error',
  429: 'rate_limit_error',
  500: 'server_error',
  502: 'server_error',
});

/** @param {Response} response @param {number} status @param {string} json */
function reply(response, status, json) {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    ...(status === 429 && { 'Retry-After': '1' }),
  });
  response.end(json);
}

/** @param {Response} response @param {unknown} error */
function replyError(response, error) {
  if (response.headersSent) return void response.destroy();
  const theirs = error instanceof WispError && ['argument', 'not_found'].includes(error.code);
  const status = error instanceof Refusal ? error.status : theirs ? 400 : 500;
  const { message } = /** @type {Error} */ (error);
  const param = error instanceof Refusal ? error.field : null;
  const type = TYPES[status] ?? 'invalid_request_error';
  reply(response, status, `${JSON.stringify({ error: { message, type, param, code: status } })}\n`);
}

/** @param {string} text */
const digestOf = (text) => createHash('sha256').update(text).digest();

/** Whether two texts are equal, in a time that does not depend on where they differ. @param {string} a @param {string} b */
const same = (a, b) => timingSafeEqual(digestOf(a), digestOf(b));

/** @param {Request} request @returns {Promise<Buffer>} */
async function bodyOf(request) {
  const parts = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > MOST_BYTES) throw new Refusal(413, 'the body is larger than this server takes');
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** @param {Buffer} body @returns {Record<string, any>} */
function parseBody(body) {
  let value;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (error) {
    throw new Refusal(400, `request: ${/** @type {Error} */ (error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Refusal(400, 'the body must be a JSON object');
  }
  return value;
}

/** @param {any} input @returns {string[]} */
function textsOf(input) {
  const texts = Array.isArray(input) ? input : [input];
  if (input === undefined || input === null || texts.length === 0) {
    throw new Refusal(400, 'is missing or empty', 'input');
  }
  if (!texts.every((text) => typeof text === 'string')) {
    throw new Refusal(400, 'must be a string or a list of strings', 'input');
  }
  if (texts.some((text) => /\p{Surrogate}/u.test(text))) {
    throw new Refusal(400, 'has a lone surrogate, which is no text', 'input');
  }
  if (texts.length > MOST_TEXTS) {
    throw new Refusal(413, `${texts.length} texts are more than the ${MOST_TEXTS} of a request`, 'input'); // prettier-ignore
  }
  return texts;
}

/** @param {Float32Array} row @param {boolean} base64 */
const print = (row, base64) =>
  base64
    ? `"${Buffer.from(row.buffer, row.byteOffset, row.byteLength).toString('base64')}"`
    : `[${Array.from(row, printFloat).join(',')}]`;

/**
 * The address of what a request asks the other server for. A target such as x://host or /../path would lead to another
 * server, or out of the path that the user has named: these have none.
 * @param {string} base @param {string} target
 */
function below(base, target) {
  const { origin, pathname } = new URL(`${base}/`);
  if (!target.startsWith('/') || !URL.canParse(base + target)) return undefined;
  const url = new URL(base + target);
  return url.origin === origin && url.pathname.startsWith(pathname) ? url : undefined;
}

/**
 * The headers for the other server. Those of the client's key are passed on if there is no other, and none is asked for
 * here, whose key is nobody else's.
 * @param {Request} request @param {string | undefined} key @param {boolean} passes
 */
function headersFor(request, key, passes) {
  const own = key ? { authorization: `Bearer ${key}` } : passes ? request.headers : {};
  const { accept, 'content-type': type = 'application/json', 'anthropic-version': version } = request.headers; // prettier-ignore
  /** @type {Record<string, unknown>} */
  const wanted = { 'Content-Type': type, Accept: accept, 'anthropic-version': version, Authorization: own.authorization, 'x-api-key': own['x-api-key'] }; // prettier-ignore
  return /** @type {Record<string, string>} */ (
    Object.fromEntries(Object.entries(wanted).filter(([, value]) => typeof value === 'string'))
  );
}

/** A server that is ready to listen. */
export class EmbeddingServer {
  /** Texts that have no reply yet. */
  #waiting = 0;
  #options;
  #server;

  /** @param {ServerOptions} options */
  constructor(options) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      this.#handle(request, response).catch((error) => replyError(response, error));
    });
  }

  /** @param {number} port @param {string} address @returns {Promise<number>} the port */
  async listen(port, address) {
    await new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, address, () => resolve(undefined));
    });
    return /** @type {import('node:net').AddressInfo} */ (this.#server.address()).port;
  }

  /** Accepts no more requests, and resolves when all have their replies. */
  async close() {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => this.#server.closeAllConnections(), CLOSING_MS);
    await closed;
    clearTimeout(timer);
  }

  /** @param {Request} request @param {Response} response */
  async #handle(request, response) {
    const target = request.url ?? '/';
    const path = target.replace(/\?.*/, '');
    this.#admit(request, response);
    if (request.method === 'OPTIONS' && request.headers.origin !== undefined) {
      response.writeHead(200, { 'Access-Control-Allow-Methods': 'GET, POST', 'Access-Control-Allow-Headers': '*, Authorization' }); // prettier-ignore
      return void response.end();
    }
    if (path === '/health') {
      this.#expect(request, path, 'GET');
      return reply(response, 200, '{"status":"ok"}');
    }
    this.#checkKey(request);
    if (path === '/v1/models') {
      this.#expect(request, path, 'GET');
      const model = { id: this.#options.name, object: 'model', created: 0, owned_by: 'wisp', loaded: true }; // prettier-ignore
      return reply(response, 200, JSON.stringify({ object: 'list', data: [model] }));
    }
    if (path === '/v1/embeddings') {
      this.#expect(request, path, 'POST');
      return this.#embed(request, response, target);
    }
    if (this.#options.upstream && request.method === 'POST') {
      return this.#forward(request, response, target, await bodyOf(request));
    }
    throw new Refusal(404, `there is no ${path} for ${request.method}`);
  }

  /** Refuses requests of pages that are not of this machine, and those to a name that leads here. @param {Request} request @param {Response} response */
  #admit(request, response) {
    const { host, origin } = request.headers;
    if (this.#options.loopback && !isLocal(host)) {
      throw new Refusal(403, `this server answers requests to this machine, and this one is to ${host ?? 'none'}`); // prettier-ignore
    }
    if (origin === undefined) return;
    const page = /^https?:\/\/(.*)$/.exec(origin)?.[1];
    if (page === undefined || !(isLocal(page) || page === host)) {
      throw new Refusal(403, `pages of ${origin} may not use this server`);
    }
    response.setHeader('Access-Control-Allow-Origin', origin).setHeader('Vary', 'Origin');
  }

  /** @param {Request} request */
  #checkKey(request) {
    const { key } = this.#options;
    const { authorization, 'x-api-key': other } = request.headers; // Anthropic's clients send the latter
    const given = /^Bearer (.*)$/i.exec(authorization ?? '')?.[1] ?? (typeof other === 'string' ? other : undefined); // prettier-ignore
    if (key !== undefined && (given === undefined || !same(given, key))) {
      throw new Refusal(401, 'the API key is missing or wrong');
    }
  }

  /** @param {Request} request @param {string} path @param {string} method */
  #expect(request, path, method) {
    if (request.method !== method) throw new Refusal(405, `${path} does not take ${request.method}`); // prettier-ignore
  }

  /** @param {Request} request @param {Response} response @param {string} target */
  async #embed(request, response, target) {
    const { embedder, name, upstream, mostWaiting } = this.#options;
    const bytes = await bodyOf(request);
    const body = parseBody(bytes);
    if (upstream && typeof body.model === 'string' && body.model !== name) {
      return this.#forward(request, response, target, bytes);
    }
    const format = body.encoding_format ?? 'float', dimensions = body.dimensions ?? embedder.dimensions; // prettier-ignore
    const texts = textsOf(body.input);
    const mayCut = body.truncate ?? false;
    if (typeof mayCut !== 'boolean') throw new Refusal(400, 'must be true or false', 'truncate');
    if (format !== 'float' && format !== 'base64') {
      throw new Refusal(400, 'must be "float" or "base64"', 'encoding_format');
    }
    if (!Number.isInteger(dimensions) || dimensions < 1 || dimensions > embedder.dimensions) {
      throw new Refusal(400, `must be a whole number from 1 to ${embedder.dimensions}`, 'dimensions'); // prettier-ignore
    }
    // A request that is larger than the queue is served when it is empty.
    if (this.#waiting > 0 && this.#waiting + texts.length > mostWaiting) {
      throw new Refusal(429, `the server is busy: ${this.#waiting} texts are waiting, and the queue takes ${mostWaiting}`); // prettier-ignore
    }
    this.#waiting += texts.length;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const calls = { signal: gone.signal };
      const { maxTokens: most, prompt } = embedder.info();
      /** @type {number[]} */
      const counts = await embedder.countTokens(texts.map((text) => prompt + text), calls); // prettier-ignore
      const tooLong = counts.findIndex((count) => count > most);
      if (tooLong >= 0 && !mayCut) {
        throw new Refusal(413, `text ${tooLong} has ${counts[tooLong]} tokens, and the model takes ${most}; "truncate": true cuts it`, 'input'); // prettier-ignore
      }
      const tokens = counts.reduce((sum, count) => sum + Math.min(count, most), 0);
      /** @type {Iterable<Float32Array>} */
      const rows = await embedder.embed(texts, { ...calls, dimensions });
      const data = Array.from(rows, (row, index) =>
        `{"object":"embedding","index":${index},"embedding":${print(row, format === 'base64')}}`); // prettier-ignore
      reply(response, 200, `{"object":"list","data":[${data}],"model":${JSON.stringify(name)},"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens}}}`); // prettier-ignore
    } catch (error) {
      if (!gone.signal.aborted) throw error;
    } finally {
      this.#waiting -= texts.length;
    }
  }

  /**
   * Sends a request to the other server, and its reply back as it comes.
   * @param {Request} request
   * @param {Response} response
   * @param {string} target its path and query
   * @param {Buffer} body
   */
  async #forward(request, response, target, body) {
    const upstream = /** @type {NonNullable<ServerOptions['upstream']>} */ (this.#options.upstream);
    const url = below(upstream.url, target);
    if (!url) throw new Refusal(404, `there is no ${target} for ${request.method}`);
    const headers = headersFor(request, upstream.key, this.#options.key === undefined);
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    let answer;
    try {
      // Behind a redirect a POST can become a GET, or go to a server that nobody named.
      const init = /** @type {RequestInit} */ ({ method: 'POST', headers, redirect: 'error', body: Uint8Array.from(body), signal: gone.signal }); // prettier-ignore
      answer = await fetch(url, init);
    } catch (error) {
      if (gone.signal.aborted) return;
      const { cause } = /** @type {any} */ (error); // the message of other errors can have the key
      throw new Refusal(502, `the other server cannot be asked: ${cause?.code ?? cause?.message ?? 'fetch failed'}`); // prettier-ignore
    }
    const after = answer.headers.get('retry-after');
    response.writeHead(answer.status, {
      'Content-Type': answer.headers.get('content-type') ?? 'application/json',
      ...(after !== null && { 'Retry-After': after }),
    });
    const parts = answer.body ? Readable.fromWeb(/** @type {any} */ (answer.body)) : Readable.from([]); // prettier-ignore
    await pipeline(parts, response).catch(() => {}); // either side may end early; there is nobody to tell
  }
}
