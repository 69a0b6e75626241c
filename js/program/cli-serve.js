// SPDX-License-Identifier: Apache-2.0
// `wisp-engine serve`: a part of what `wisp serve` does, for those without a compiler.
import { readFile } from 'node:fs/promises';
import { reasonOf } from '../base/system-error.js';
import { Complaint, EXIT, Progress, parse, print, wholeNumber, wrongUsage } from './cli-console.js';
import { open } from './cli-embed.js';
import { EmbeddingServer } from './embedding-server.js';
import { isLocal } from './serve.js';

const HELP = `usage: wisp-engine serve [OPTION]...

Answers requests over HTTP with a model that embeds: POST /v1/embeddings as OpenAI has it,
GET /v1/models and GET /health. Ctrl-C and SIGTERM end it when all requests under way have their
replies.

  -m, --model MODEL      a GGUF file, its URL, or hf:owner/name[@revision][/file] on the Hugging
                         Face Hub (default: WISP_MODEL, else the model of the package)
      --name NAME        of the model in requests and replies (default: that in its file)
      --port N           listen on this port; 0 takes any that is free (default: 8080)
      --address ADDRESS  listen here (default: 127.0.0.1, which only this machine reaches)
      --queue N          texts that may wait; more are refused with 429 (default: 8192)
      --api-key-file F   ask every request but /health for the key in the file's first line
                         (default: the key in $WISP_API_KEY, if there is one)
      --upstream URL     send requests that name another model, and all others that are not
                         answered here, such as /v1/chat/completions, to this server
      --upstream-key-file F
                         the key for it (default: the key in $WISP_UPSTREAM_KEY, else that of
                         the request if none is asked for here)
  -t, --workers N        threads that compute (default: one for each core, at most 4); --threads
                         is the same
      --backend NAME     auto (default): native code if its package is installed; native; wasm
      --compute MODE     auto (default), f32, int8, or bf16 (native code, on processors with AMX
                         or AVX512-BF16)
      --portable         embed in int8 with the same bits on every machine and in every engine
      --vector-cache DIR keep embeddings in a file in DIR, and read those of texts that were embedded
                         before, as wisp serve does (native code, on Linux and macOS)
      --vector-cache-size BYTES
                         of the file, such as 500M: embeddings used longest ago are replaced
                         (default: 1G)
  -h, --help             this text

Exit code: 0 done, 1 serving failed, 2 wrong usage, 3 the model cannot be used.
`;

/** Reads the first line of a file. @param {string} option @param {string | undefined} path @param {string | undefined} fallback */
async function keyOf(option, path, fallback) {
  if (path === undefined) return fallback || undefined;
  const text = await readFile(path, 'utf8').catch((error) => {
    throw new Complaint(EXIT.usage, `--${option} ${path}: ${reasonOf(error)}`);
  });
  return text.split(/\r?\n/, 1)[0];
}

/** Checks that headers can have a key. @param {string} option @param {string | undefined} key */
function checkKey(option, key) {
  if (key === undefined || /^[\x20-\x7e]+$/.test(key)) return key;
  throw wrongUsage(
    `--${option}: the key, a file's first line, must be of printable ASCII characters`,
  );
}

/** @param {string | undefined} text @returns {string | undefined} the URL without what ends it */
function checkUpstream(text) {
  if (text === undefined) return undefined;
  const url = /^https?:\/\/[^/]/.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (!url) throw wrongUsage(`--upstream ${text}: expected a URL with http: or https:`);
  if (url.username || url.password || /[?#]/.test(text)) {
    throw wrongUsage('--upstream: a URL without a user, a query and a fragment; its key is that of --upstream-key-file'); // prettier-ignore
  }
  return text.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** @param {string[]} args @returns {Promise<number>} the exit code */
export async function run(args) {
  const { values, positionals } = parse('serve', args, {
    model: { type: 'string', short: 'm' },
    name: { type: 'string' },
    port: { type: 'string', default: '8080' },
    address: { type: 'string', default: '127.0.0.1' },
    queue: { type: 'string', default: '8192' },
    'api-key-file': { type: 'string' },
    upstream: { type: 'string' },
    'upstream-key-file': { type: 'string' },
    workers: { type: 'string', short: 't' },
    threads: { type: 'string' },
    backend: { type: 'string', default: 'auto' },
    compute: { type: 'string' },
    portable: { type: 'boolean' },
    'vector-cache': { type: 'string' },
    'vector-cache-size': { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  });
  if (values.help) return (await print(HELP), EXIT.good);
  if (positionals.length > 0) throw wrongUsage(`serve takes no arguments: ${positionals[0]}`);
  const port = /** @type {number} */ (wholeNumber('port', values.port, 0, 65535));
  const mostWaiting = /** @type {number} */ (wholeNumber('queue', values.queue, 1, 1 << 24));
  const url = checkUpstream(values.upstream);
  const { WISP_API_KEY, WISP_UPSTREAM_KEY } = process.env;
  const key = checkKey('api-key-file', await keyOf('api-key-file', values['api-key-file'], WISP_API_KEY)); // prettier-ignore
  const upstreamKey = checkKey('upstream-key-file', await keyOf('upstream-key-file', values['upstream-key-file'], WISP_UPSTREAM_KEY)); // prettier-ignore

  const stop = new AbortController();
  const ended = new Promise((resolve) => stop.signal.addEventListener('abort', resolve));
  // The second signal ends the program, as it does by default.
  for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stop.abort());
  const embedder = await open(values, stop.signal, new Progress());
  try {
    const name = values.name ?? (embedder.info().name || 'wisp');
    const server = new EmbeddingServer({
      embedder,
      name,
      mostWaiting,
      key,
      loopback: isLocal(values.address) || values.address === '::1',
      upstream: url === undefined ? undefined : { url, key: upstreamKey },
    });
    const bound = await server.listen(port, values.address).catch((error) => {
      throw new Complaint(EXIT.failed, `cannot listen on ${values.address}:${port}: ${reasonOf(error)}`); // prettier-ignore
    });
    process.stderr.write(`serving ${name} at http://${values.address}:${bound} (Ctrl-C ends)\n`);
    await ended;
    process.stderr.write('ending when all requests have their replies\n');
    await server.close();
  } finally {
    await embedder.destroy();
  }
  return EXIT.good;
}
