// SPDX-License-Identifier: Apache-2.0
// `wisp-engine pull`, `list` and `doctor` where the native program is not installed: what the first two do with models of
// the Hub.
import { stat } from 'node:fs/promises';
import { deleteCached, folderFromHub, fromHub, listCached } from '../hub/hub-node.js';
import { Complaint, EXIT, Progress, parse, print, wrongUsage } from './cli-console.js';

const PULL = `usage: wisp-engine pull [OPTION]... NAME...

Fetches models, unless they are there, and prints the path of each. NAME is
hf:owner/name[@revision][/file] on the Hugging Face Hub. Of a repository comes its GGUF file, of
several the one of type Q8_0 or the next best; else its configuration, tokenizer and weights. What
is interrupted continues the next time. Every command takes these names for a model, and fetches
what is absent.

      --folder  of a repository that has both, fetch the weights of training and not the GGUF
                file, as wisp-engine convert does
      --json    print a JSON array of objects
      --quiet   print results and errors, and no progress
  -h, --help    this text

Variables: HF_TOKEN for private and gated models, HF_ENDPOINT for another server, HF_HUB_CACHE or
HF_HOME for another folder, HF_HUB_OFFLINE=1 to fetch nothing.
`;

const LIST = `usage: wisp-engine list [OPTION]...

Lists the GGUF files of the Hugging Face Hub that were fetched, whichever program has fetched them.
The last used come first.

      --remove NAME  delete a model, by a name as listed; hf:owner/name: all of the repository.
                     May be repeated
      --json         print a JSON array of objects
      --quiet        print results and errors, and no remarks
  -h, --help         this text

Variables: HF_HUB_CACHE or HF_HOME say where the cache is.
`;

const OPTIONS = /** @type {const} */ ({
  json: { type: 'boolean', default: false },
  quiet: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h' },
});

/** @param {number} bytes */
const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

/** @param {object[]} rows */
const jsonOf = (rows) => `[${rows.map((row) => JSON.stringify(row)).join(',\n ')}]\n`;

/**
 * Finds a model by its name: the GGUF file of its repository, or the folder of one that has none.
 * @param {string} name
 * @param {import('../../types/hub.js').HubOptions} [options]
 * @returns {Promise<string>} its path
 */
export const modelOf = (name, options) =>
  fromHub(name, options).catch((error) => {
    if (error.code === 'unsupported' && error.field === 'file') return folderFromHub(name, options);
    throw error;
  });

/** @param {string[]} args @returns {Promise<number>} the exit code */
export async function pull(args) {
  const own = { folder: { type: /** @type {const} */ ('boolean') } };
  const { values, positionals } = parse('pull', args, { ...OPTIONS, ...own });
  if (values.help) return (await print(PULL), EXIT.good);
  if (positionals.length === 0) throw wrongUsage('pull: give a name (see --help)');
  const wrong = positionals.find((name) => !/^hf:/i.test(name));
  if (wrong !== undefined) throw wrongUsage(`pull: ${wrong}: not hf:owner/name`);
  const stop = new AbortController();
  // The second signal ends the program, as it does by default.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => stop.abort());
  const progress = new Progress(values.quiet);
  const fetched = [];
  for (const name of positionals) {
    const path = await (values.folder ? folderFromHub : modelOf)(name, {
      signal: stop.signal,
      onProgress: ({ loaded, total }) =>
        progress.show(() => {
          const of = total === undefined ? '' : ` of ${megabytes(total)}`;
          return `fetching ${name}: ${megabytes(loaded)}${of} MB`;
        }),
    }).finally(() => progress.end());
    if (!values.json) await print(`${path}\n`);
    fetched.push({ name, path });
  }
  if (values.json) await print(jsonOf(fetched));
  return EXIT.good;
}

/** When a file was used, or written, if the system does not keep the one. @param {string} path */
async function usedAt(path) {
  const { atimeMs, mtimeMs } = await stat(path);
  return Math.floor(Math.max(atimeMs, mtimeMs) / 1000);
}

/** @param {number} seconds @returns {string} in local time */
function dateOf(seconds) {
  const date = new Date(1000 * seconds);
  const two = (/** @type {number} */ number) => String(number).padStart(2, '0');
  return (
    `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}`
  );
}

/** @param {string[]} args @returns {Promise<number>} the exit code */
export async function list(args) {
  const own = { remove: { type: /** @type {const} */ ('string'), multiple: true } };
  const { values, positionals } = parse('list', args, { ...OPTIONS, ...own });
  if (values.help) return (await print(LIST), EXIT.good);
  if (positionals.length > 0) throw wrongUsage(`list takes no arguments: ${positionals[0]}`);
  for (const name of values.remove ?? []) {
    const freed = await deleteCached(name);
    if (freed === 0) throw new Complaint(EXIT.model, `list: ${name} is not in the cache`);
    await print(`${megabytes(freed)} MB are free now\n`);
  }
  if (values.remove) return EXIT.good;
  const rows = await Promise.all(
    (await listCached()).map(async ({ name, bytes, source }) => ({ name, bytes, used: await usedAt(String(source)), path: source })), // prettier-ignore
  );
  rows.sort((a, b) => b.used - a.used || (a.name < b.name ? -1 : 1));
  if (values.json) return (await print(jsonOf(rows)), EXIT.good);
  const line = (/** @type {number} */ bytes, /** @type {string} */ text) =>
    `${megabytes(bytes).padStart(10)} MB  ${text}\n`;
  const lines = rows.map(({ name, bytes, used }) => line(bytes, `${dateOf(used)}  ${name}`));
  const total = rows.reduce((sum, { bytes }) => sum + bytes, 0);
  if (rows.length > 1) lines.push(line(total, 'in all'));
  if (rows.length > 0) await print(lines.join(''));
  else if (!values.quiet)
    process.stderr.write('wisp-engine: no models were fetched: see wisp-engine pull --help\n');
  return EXIT.good;
}

/** @returns {Promise<number>} */
export async function doctor() {
  throw wrongUsage('doctor is of the native program, which the package has for Linux: build it from its sources (make), then run build/wisp doctor'); // prettier-ignore
}
