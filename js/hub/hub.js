// SPDX-License-Identifier: Apache-2.0
// Models by name on the Hugging Face Hub, or a server with the same paths: what Node and browsers share.
import { WispError, cancelled, throwIfAborted } from '../base/errors.js';
import { checkOptions, checkString, wrong } from '../base/options.js';
import { partOf } from '../files/part-names.js';

export const HUB = 'https://huggingface.co';

/** @typedef {import('../../types/hub.js').HubOptions} HubOptions */

/** @typedef {{ repo: string, revision: string, file: string | undefined }} ModelName */

/** @typedef {(files: readonly string[], model: ModelName) => string[]} Choose */

/** A request failed. `status` is 0 if no answer came. */
export class HubError extends WispError {
  /**
   * @param {import('../base/errors.js').WispErrorCode} code
   * @param {string} message
   * @param {number} status
   * @param {unknown} [cause]
   */
  constructor(code, message, status, cause) {
    super(code, message, { cause });
    this.status = status;
  }
}

/**
 * Whether the server cannot be reached or is out of order, so that a stored model may take the place
 * of its answer.
 * @param {unknown} error
 */
export const isOutage = (error) =>
  error instanceof HubError &&
  (error.status === 0 || isForNow(error.status) || error.status >= 500);

/** Whether a server that answers so asks to come again. */
const isForNow = (/** @type {number} */ status) => status === 408 || status === 429;

const OPTIONS = [
  ...['revision', 'file', 'endpoint', 'token', 'cacheDir', 'offline', 'signal', 'onProgress'],
];

/** A revision with a slash that the Hub itself makes, for pull requests and conversions. */
const NAME = /^(?:hf:)?([^/@]+\/[^/@]+)(?:@(refs\/(?:pr|convert)\/[^/]+|[^/]+))?(?:\/(.+))?$/;

/**
 * Reads `[hf:]owner/name[@revision][/file]`, and checks the options.
 * @param {string} name
 * @param {HubOptions} options
 * @returns {ModelName}
 */
export function parseName(name, options) {
  checkOptions(options, OPTIONS);
  checkString(name, 'name');
  for (const field of /** @type {const} */ (['endpoint', 'token', 'cacheDir']))
    checkString(options[field] ?? '', field);
  const found = NAME.exec(name);
  if (!found) {
    throw wrong('name', `'${name}' is not [hf:]owner/name[@revision][/file.gguf]`);
  }
  const [, repo, revision, file] = found;
  const twice = (/** @type {string} */ field) =>
    wrong(field, `'${name}' names one too; give it once`);
  if (revision !== undefined && options.revision !== undefined) throw twice('revision');
  if (file !== undefined && options.file !== undefined) throw twice('file');
  const wanted = {
    repo,
    revision: options.revision ?? decoded(revision, name) ?? 'main',
    file: options.file ?? file,
  };
  checkToken(options.token);
  for (const [field, value] of Object.entries(wanted)) {
    if (value === undefined) continue;
    checkString(value, field);
    checkPath(value, field);
  }
  return wanted;
}

/**
 * A revision with slashes has %2F in an address.
 * @param {string | undefined} revision
 * @param {string} name
 */
function decoded(revision, name) {
  try {
    return revision && decodeURIComponent(revision);
  } catch {
    throw wrong('name', `'${name}': the revision is not encoded as in an address`);
  }
}

/**
 * Checks a name that becomes a path: it must not lead out of its folder.
 * @param {string} path
 * @param {string} field
 */
export function checkPath(path, field) {
  // eslint-disable-next-line no-control-regex
  const hasMark = /[\\:*?"<>|\0-\x1f\p{Surrogate}]/u.test(path);
  const odd = hasMark || path.split('/').some((part) => /^\.*$/.test(part));
  if (odd) throw wrong(field, `'${path}' is not the name of a file or revision`);
}

/**
 * Checks a token without quoting it, as an error of fetch about its header would.
 * @param {string | undefined} token
 */
export function checkToken(token) {
  if (/[^\x21-\x7e]/.test(token ?? '')) throw wrong('token', 'has characters that no token has');
}

/**
 * Checks a name that a server gives, which becomes that of a file or folder.
 * @param {string} name
 * @param {string} field
 * @param {string} url
 */
export function checkName(name, field, url) {
  try {
    checkPath(name, field);
    if (!name.includes('/')) return;
  } catch {
    // It is said below.
  }
  throw new HubError(
    'format',
    `${url}: ${field}: '${name}' is not the name of a file: it does not come from a Hub`,
    200,
  );
}

/** A revision that is the hash of a commit, whose files never change. */
export const isCommit = (/** @type {string} */ revision) => /^[0-9a-f]{40}$/.test(revision);

/** @param {string} path */
const encoded = (path) => path.split('/').map(encodeURIComponent).join('/');

/**
 * @param {string} endpoint
 * @param {{ repo: string, revision: string }} model
 */
const listUrl = (endpoint, { repo, revision }) =>
  `${endpoint}/api/models/${encoded(repo)}/revision/${encodeURIComponent(revision)}?blobs=true`;

/**
 * @param {string} endpoint
 * @param {{ repo: string, revision: string, file: string }} model
 */
export const fileUrl = (endpoint, { repo, revision, file }) =>
  `${endpoint}/${encoded(repo)}/resolve/${encodeURIComponent(revision)}/${encoded(file)}`;

/**
 * The types of a model's weights, in the order in which one is chosen: Q8_0 first, because int8 computes
 * with it as it is. The generation of texts may want a smaller one, by its name.
 */
const TYPES = [
  ...['Q8_0', 'Q6_K', 'Q5_K_M', 'Q5_K_S', 'Q5_1', 'Q5_0', 'Q4_K_M', 'Q4_K_S', 'Q4_1', 'Q4_0'],
  ...['F16', 'BF16', 'F32'],
];

/**
 * Chooses the model among a repository's files: its GGUF file, or of several the one whose type of
 * weights comes first. If all models are in several files, the first file of one.
 * @param {readonly string[]} files
 * @param {{ repo: string }} model
 * @returns {string}
 */
export function chooseFile(files, { repo }) {
  const models = files.filter((file) => /\.gguf$/i.test(file) && !/mmproj|imatrix/i.test(file));
  const whole = models.filter((file) => !partOf(file));
  const found = whole.length > 0 ? whole : models.filter((file) => partOf(file)?.part === 1);
  found.sort();
  if (found.length === 1) return found[0];
  for (const type of TYPES) {
    const end = new RegExp(`(^|[-_./])${type}(-\\d{5}-of-\\d{5})?\\.gguf$`, 'i');
    const ofType = found.filter((file) => end.test(file));
    if (ofType.length === 1) return ofType[0];
    if (ofType.length > 1) break;
  }
  if (found.length > 1) {
    throw wrong('file', `${repo} has several models; name one of ${found.join(', ')}`);
  }
  const remedy = files.some((file) => /\.(safetensors|bin|onnx)$/.test(file))
    ? `. import 'wisp-engine/convert' lets it be loaded all the same; npx wisp-engine convert hf:${repo} ` +
      'model.gguf makes a file of it'
    : '';
  throw new WispError('unsupported', `${repo} has no GGUF file${remedy}`, { field: 'file' });
}

/**
 * The files of a repository's revision, as the API lists them.
 * @typedef {object} Listing
 * @property {string} commit
 * @property {Map<string, { size?: number, sha256?: string }>} files
 */

/**
 * Lists a revision's files.
 * @param {string} endpoint
 * @param {ModelName} model
 * @param {Asking} asking
 * @returns {Promise<Listing>}
 */
export async function list(endpoint, model, asking) {
  const url = listUrl(endpoint, model);
  const response = await ask(url, {}, asking);
  let answer;
  try {
    answer = await response.json();
  } catch (cause) {
    throw new HubError(
      'format',
      `${url}: not JSON: it is not a Hub, or a login page is in front of it`,
      200,
      cause,
    );
  }
  if (typeof answer?.sha !== 'string' || !Array.isArray(answer.siblings)) {
    throw new HubError('format', `${url}: not a list of a model's files`, 200);
  }
  checkName(answer.sha, 'sha', url);
  const files = new Map();
  for (const sibling of answer.siblings) {
    const { rfilename, size, lfs } = Object(sibling);
    if (typeof rfilename !== 'string') continue;
    const bytes = lfs?.size ?? size;
    const hash = lfs?.sha256 ?? lfs?.oid;
    files.set(rfilename, {
      size: Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : undefined,
      sha256: /^[0-9a-f]{64}$/.test(hash) ? hash : undefined,
    });
  }
  return { commit: answer.sha, files };
}

/**
 * @typedef {object} Asking
 * @property {AbortSignal} [signal]
 * @property {string} [token]
 * @property {(milliseconds: number) => void} [onPause] is called before a pause between two requests
 */

/** Requests that are made again, and the seconds before the first repetition. */
const TRIES = 4;
const FIRST_WAIT = 0.5;

/** A server that wants more seconds than this between requests is not waited for. */
const LONGEST_WAIT = 30;

/**
 * Requests; again if the server is out of order for a moment.
 * @param {string} url
 * @param {RequestInit} init
 * @param {Asking} asking
 * @returns {Promise<Response>} of a status below 400
 */
export async function ask(url, init, { signal, token, onPause }) {
  const headers = new Headers(init.headers);
  if (token) headers.set('Authorization', `Bearer ${token}`);
  const { username, password } = addressOf(url);
  if (username || password)
    throw wrong('endpoint', `${plain(url)}: an address has no name and password`);
  for (let tries = 1; ; tries++) {
    const error = await tryToAsk(url, { ...init, headers, signal }, token);
    if (!(error instanceof HubError)) return error;
    const { status, seconds = FIRST_WAIT * 2 ** tries } = /** @type {any} */ (error);
    const passes = isForNow(status) || (status >= 500 && status !== 501);
    if (!passes || tries === TRIES || seconds > LONGEST_WAIT) throw error;
    // Not all who were refused at one moment come again at one moment.
    const pause = seconds * (1 + Math.random() / 4);
    onPause?.(pause * 1000);
    await sleep(pause, signal);
  }
}

/**
 * @param {string} url
 * @returns {URL}
 */
function addressOf(url) {
  try {
    return new URL(url);
  } catch {
    throw wrong('endpoint', `${url} is not the https address of a host`);
  }
}

/** An address without what may be secret in it: name, password, and the query of a signed one. @param {string} url */
export function plain(url) {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/**
 * @param {string} url
 * @param {RequestInit & { signal?: AbortSignal }} init
 * @param {string} [token]
 */
async function tryToAsk(url, init, token) {
  let response;
  try {
    response = await fetch(url, init);
  } catch (cause) {
    if (init.signal?.aborted) throw cancelled(init.signal);
    const { message, cause: reason } = /** @type {any} */ (cause);
    const why = without(token, reason?.message ?? message);
    return new HubError('io', `cannot reach ${url}: ${why}. ${OFFLINE}`, 0, cause);
  }
  const { redirected, url: end } = response;
  const isLaidOpen = redirected && url.startsWith('https:') && end.startsWith('http:');
  if (response.status < 400 && !isLaidOpen) return response;
  response.body?.cancel().catch(() => {});
  if (isLaidOpen) {
    const text = `${url} leads to ${plain(end)}, which is not encrypted`;
    return new HubError('io', text, REDIRECTED);
  }
  return Object.assign(refusal(url, response, token), { seconds: retryAfter(response) });
}

/** The status of an error by which a redirect is refused. */
export const REDIRECTED = 302;

/** A server may send a token back. @param {string | undefined} token @param {string} text */
const without = (token, text) => (token ? text.replaceAll(token, '(token)') : text);

const OFFLINE = 'A model that was loaded before is found without it by the option offline';

/** @param {Response} response */
function retryAfter({ headers }) {
  const value = headers.get('retry-after');
  if (!value) return undefined;
  const seconds = Number(value);
  return Number.isNaN(seconds) ? (Date.parse(value) - Date.now()) / 1000 : seconds;
}

/**
 * @param {number} seconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(cancelled(/** @type {AbortSignal} */ (signal)));
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      },
      Math.max(seconds, 0) * 1000,
    );
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

/** How often a transfer is continued without a byte of progress, and the seconds before the first time. */
const CONTINUATIONS = 4;
const FIRST_PAUSE = 0.1;

/**
 * @typedef {object} Transfer
 * @property {string} url
 * @property {number | undefined} size of the whole file, if it is known
 * @property {() => number} at bytes that have come
 * @property {(report: (total: number | undefined) => void) => Promise<void>} read
 *   reads the file from `at` on to the end of one response, and reports what has arrived
 * @property {(error: any) => boolean} isBroken whether an error of `read` is one of the connection
 * @property {number} [least] bytes of progress by a request that is abandoned with a HubError
 */

/**
 * Reads a file to its end, in as many responses as it takes.
 * @param {Transfer} transfer
 * @param {Pick<HubOptions, 'signal' | 'onProgress'>} options
 */
export async function readAll(
  { url, size, at, read, isBroken, least = 0 },
  { signal, onProgress },
) {
  let thrown = false; // by onProgress
  /** @param {number | undefined} total */
  const report = (total) => {
    throwIfAborted(signal);
    thrown = true;
    onProgress?.({ loaded: at(), total });
    thrown = false;
  };
  for (let tries = 0; at() === 0 || at() !== size; tries++) {
    if (tries > 0) await sleep(FIRST_PAUSE * 2 ** tries, signal);
    const before = at();
    let cause;
    try {
      await read(report);
      if (size === undefined) return;
    } catch (error) {
      throwIfAborted(signal);
      if (thrown || !isBroken(error)) throw error;
      cause = error;
    }
    if (at() > before + (cause instanceof HubError ? least : 0)) tries = 0;
    else if (tries === CONTINUATIONS) {
      if (cause instanceof HubError) throw cause;
      const all = size === undefined ? '' : ` of ${size}`;
      throw new HubError('io', `${url}: the transfer ends after ${before}${all} bytes`, 0, cause);
    }
  }
}

const GIVE_TOKEN = 'give a token with access (HF_TOKEN in Node, the option token)';

/**
 * @param {number} status
 * @param {string | null} kind the Hub's own code
 * @param {string | null} later
 * @param {string} [token]
 */
function remedyOf(status, kind, later, token) {
  if (kind === 'GatedRepo')
    return `the model is gated: ask for access on its page, and ${GIVE_TOKEN}`;
  if (kind === 'RevisionNotFound') return 'the repository has no such revision';
  if (kind === 'EntryNotFound') return 'the revision has no such file';
  if (status === 401 || status === 403 || kind === 'RepoNotFound') {
    return token
      ? 'it does not exist, or the token has no access: ask for access on its page, or give another token'
      : `it does not exist, or is private or gated: ${GIVE_TOKEN}`;
  }
  if (status === 404) return 'check the name, the revision and the file';
  if (status === 429) {
    return `too many requests; try again ${later ? `in ${later} s` : 'later'}, or give a token`;
  }
  return status >= 500
    ? `the server is out of order; try again later. ${OFFLINE}`
    : 'check the name';
}

/**
 * @param {string} url
 * @param {Response} response
 * @param {string} [token]
 */
function refusal(url, response, token) {
  const { status, headers } = response;
  const reason = headers.get('x-error-message') ?? response.statusText;
  const kind = headers.get('x-error-code');
  const said = without(token, `cannot fetch ${url}: HTTP ${status} ${reason}`.trimEnd());
  const remedy = remedyOf(status, kind, headers.get('retry-after'), token);
  const missing = status === 404 || kind === 'RepoNotFound';
  return new HubError(missing ? 'not_found' : 'io', `${said}: ${remedy}`, status);
}

/**
 * Checks the first bytes of a model, or of a file of a folder, which tell less.
 * @param {Uint8Array} bytes
 * @param {string} url
 */
export function checkMagic(bytes, url) {
  const text = String.fromCharCode(...bytes.subarray(0, 32));
  const isPointer = /^version \S+git-lfs/.test(text);
  // Vocabularies and templates may begin with a token such as <s>.
  const isPage = /\.(txt|jinja)$/.test(url) ? /^<(!doctype|html)/i.test(text) : text[0] === '<';
  const isOfFolder = /\.(json|txt|jinja|model|metadata|safetensors|bin|onnx|onnx_data|data)$/.test(
    url,
  );
  if (text.startsWith('GGUF') || (isOfFolder && !isPage && !isPointer)) return;
  const found = isPage
    ? 'an HTML page and not the file: a login page or a proxy may be in front of the server'
    : isPointer
      ? 'a pointer of Git LFS and not the file'
      : 'not a GGUF file';
  throw new WispError('format', `${url} is ${found}`);
}

/**
 * @param {string} url
 * @param {number} size
 * @param {number | undefined} expected
 */
export const wrongLength = (url, size, expected) =>
  new WispError('format', `${url}: ${size} bytes came, not ${expected}`);

/**
 * @param {string} url
 * @param {string} found
 * @param {string} expected
 */
export const wrongHash = (url, found, expected) =>
  new WispError(
    'format',
    `${url}: the SHA-256 of the downloaded bytes is ${found}, not the ${expected} that the server names. ` +
      'Nothing was kept; load it again',
    { field: 'sha256' },
  );
