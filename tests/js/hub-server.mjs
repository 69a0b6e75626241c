// SPDX-License-Identifier: Apache-2.0
// A server with the paths of the Hugging Face Hub, and a second one where it sends those who want a model's bytes.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

/** @typedef {import('node:http').IncomingMessage} Request */
/** @typedef {import('node:http').ServerResponse} Response */

/** @param {string | Buffer} bytes */
export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** @param {(string | Buffer)[]} parts */
const sha1 = (...parts) =>
  parts.reduce((hash, part) => hash.update(part), createHash('sha1')).digest('hex');

/** The hashes of a file, computed once: models are large. @type {Map<string | Buffer, { content: string, git: string }>} */
const hashes = new Map();

/** @param {string | Buffer} bytes */
function hashesOf(bytes) {
  const found = hashes.get(bytes) ?? {
    content: sha256(bytes),
    git: sha1(`blob ${bytes.length}\0`, bytes),
  };
  hashes.set(bytes, found);
  return found;
}

/**
 * @typedef {object} Hub
 * @property {string} origin
 * @property {string[]} asked methods, paths and ranges since the last `forget`
 * @property {(Request & { url: string })[]} requests
 * @property {() => void} forget
 * @property {(repo: string, files: Record<string, string | Buffer>, revision?: string) => string} commit
 *   makes a commit with these files of the branch, and returns its hash
 * @property {((request: Request, response: Response, next: () => void) => void) | undefined} fault
 *   answers instead, or calls `next`
 * @property {string | undefined} token that all requests must have
 * @property {Record<string, string>} headers of every answer
 * @property {() => Promise<void>} close
 */

/**
 * Makes a fault that ends each answer of a model's bytes before the first of them comes.
 * @param {number} length the bytes that the answers promise
 * @returns {NonNullable<Hub['fault']>}
 */
export function breakingOff(length) {
  return (request, response, next) => {
    if (!request.url?.startsWith('/blobs/')) return next();
    response.writeHead(200, { 'Content-Length': length }).flushHeaders();
    setImmediate(() => response.destroy());
  };
}

/** @returns {Promise<Hub>} */
export async function serveHub() {
  /** @type {Map<string, Record<string, string | Buffer>>} by repository and revision */
  const trees = new Map();
  /** @type {Map<string, string>} commits by repository and revision */
  const commits = new Map();
  /** @type {Map<string, Buffer>} by hash */
  const blobs = new Map();
  /** @type {Hub} */
  const hub = {
    origin: '',
    asked: [],
    requests: [],
    forget() {
      hub.asked = [];
      hub.requests = [];
    },
    commit(repo, files, revision = 'main') {
      const named = Object.entries(files).map(([name, bytes]) => [name, hashesOf(bytes).content]);
      const commit = sha1(JSON.stringify([repo, named, commits.size]));
      for (const name of [revision, commit]) {
        trees.set(`${repo}@${name}`, files);
        commits.set(`${repo}@${name}`, commit);
      }
      for (const bytes of Object.values(files))
        blobs.set(hashesOf(bytes).content, Buffer.from(bytes));
      return commit;
    },
    fault: undefined,
    token: undefined,
    headers: {},
    close: () => Promise.all([main, cdn].map(close)).then(() => {}),
  };

  /** @param {Request} request @param {Response} response */
  function answer(request, response) {
    const url = new URL(request.url ?? '', hub.origin);
    const { range, authorization } = request.headers;
    hub.asked.push(`${request.method} ${url.pathname}${range ? ` ${range}` : ''}`);
    hub.requests.push(/** @type {any} */ (request));
    response.setHeader('Access-Control-Allow-Origin', '*');
    response.setHeader(
      'Access-Control-Expose-Headers',
      'X-Repo-Commit, X-Linked-ETag, X-Error-Code',
    );
    response.setHeader('Cross-Origin-Resource-Policy', 'cross-origin');
    for (const [name, value] of Object.entries(hub.headers)) response.setHeader(name, value);
    if (request.method === 'OPTIONS') {
      const allowed = { 'Access-Control-Allow-Headers': 'authorization, range' };
      return void response.writeHead(204, allowed).end();
    }
    const next = () => {
      const [, repo, revision, file] =
        /^\/(?:api\/models\/)?([^/]+\/[^/]+)\/(?:resolve|revision)\/([^/]+)(?:\/(.*))?$/.exec(
          url.pathname,
        ) ?? [];
      if (url.pathname.startsWith('/blobs/')) return send(url.pathname.slice(7));
      if (hub.token && authorization !== `Bearer ${hub.token}`) return refuse(401, 'GatedRepo');
      if (![...trees.keys()].some((key) => key.startsWith(`${repo}@`))) {
        return refuse(401, 'RepoNotFound');
      }
      const key = `${repo}@${decodeURIComponent(revision)}`;
      const tree = trees.get(key);
      if (!tree) return refuse(404, 'RevisionNotFound');
      const commit = /** @type {string} */ (commits.get(key));
      if (url.pathname.startsWith('/api/')) {
        const siblings = Object.entries(tree).map(([rfilename, bytes]) => ({
          rfilename,
          size: bytes.length,
          ...(rfilename.endsWith('.gguf') && {
            lfs: { sha256: hashesOf(bytes).content, size: bytes.length, pointerSize: 134 },
          }),
        }));
        const body = JSON.stringify({ id: repo, sha: commit, siblings });
        return void response.writeHead(200, { 'Content-Type': 'application/json' }).end(body);
      }
      response.setHeader('X-Repo-Commit', commit);
      const bytes = tree[decodeURIComponent(file)];
      if (bytes === undefined) return refuse(404, 'EntryNotFound');
      if (!file.endsWith('.gguf')) {
        response.setHeader('ETag', `"${hashesOf(bytes).git}"`);
        return send(hashesOf(bytes).content);
      }
      response.writeHead(302, {
        Location: `${originOf(cdn)}/blobs/${hashesOf(bytes).content}`,
        'X-Linked-ETag': `"${hashesOf(bytes).content}"`,
        'X-Linked-Size': bytes.length,
        ETag: '"of the answer"',
        'Content-Length': 0,
      });
      response.end();
    };

    /** @param {number} status @param {string} code */
    function refuse(status, code) {
      response.writeHead(status, { 'X-Error-Code': code, 'X-Error-Message': `no: ${code}` }).end();
    }

    /** @param {string} hash */
    function send(hash) {
      const bytes = /** @type {Buffer} */ (blobs.get(hash));
      const from = Number(/bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0);
      if (from >= bytes.length && from > 0) return void response.writeHead(416).end();
      const about = { 'Content-Length': bytes.length - from, 'Accept-Ranges': 'bytes' };
      if (range) {
        const place = `bytes ${from}-${bytes.length - 1}/${bytes.length}`;
        response.writeHead(206, { ...about, 'Content-Range': place });
      } else {
        response.writeHead(200, about);
      }
      response.end(request.method === 'HEAD' ? undefined : bytes.subarray(from));
    }

    if (hub.fault) hub.fault(request, response, next);
    else next();
  }

  const [main, cdn] = await Promise.all([listen(answer), listen(answer)]);
  hub.origin = originOf(main);
  return hub;
}

/** @param {(request: Request, response: Response) => void} answer */
async function listen(answer) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  return server;
}

/** @param {import('node:http').Server} server */
const originOf = (server) =>
  `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;

/** @param {import('node:http').Server} server */
function close(server) {
  return new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  });
}
